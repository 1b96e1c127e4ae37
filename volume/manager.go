// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"sync/atomic"

	"k8s.io/klog/v2"
)

// VolumePluginMgr holds the plugins of a program and finds the one that serves a volume. Plugins come and go while it is
// in use. A lookup takes no lock, allocates nothing, and costs the same however many plugins there are for other sources.
// All methods may be called concurrently.
type VolumePluginMgr struct {
	host Host

	plugins atomic.Pointer[registry]
	// changing serialises those who replace plugins. It is never held while a plugin or a prober is called.
	changing sync.Mutex

	probes  probes
	onError func(plugin string, err error)
}

// Option is an option of [NewVolumePluginMgr].
type Option func(*VolumePluginMgr)

// WithProber adds a source of plugins that come and go while the program runs.
func WithProber(prober DynamicPluginProber) Option {
	return func(m *VolumePluginMgr) { m.probes.probers = append(m.probes.probers, prober) }
}

// WithProbeErrors has report called with what goes wrong with dynamic plugins: once per plugin when it begins to fail, again
// when the reason changes, and with a nil error when it works again or is gone. plugin is empty for an error of the prober
// itself. report may be called concurrently, but not for one plugin. Without this option the errors are logged.
func WithProbeErrors(report func(plugin string, err error)) Option {
	return func(m *VolumePluginMgr) { m.onError = report }
}

// NewVolumePluginMgr initialises the plugins with the host and returns a manager of them. If a plugin fails the error names
// every one that did. The probers are started, not waited for (see [VolumePluginMgr.WaitForProbers]); they run until ctx
// ends or Close is called.
func NewVolumePluginMgr(ctx context.Context, host Host, plugins []VolumePlugin, options ...Option) (*VolumePluginMgr, error) {
	host, err := host.Complete()
	if err != nil {
		return nil, err
	}
	m := &VolumePluginMgr{host: host, onError: logProbeError(ctx)}
	m.plugins.Store(newRegistry(nil))
	for _, option := range options {
		option(m)
	}
	var errs []error
	for _, plugin := range plugins {
		errs = append(errs, m.Register(ctx, plugin))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	m.probes.start(ctx, m)
	return m, nil
}

// Close stops the probers and waits for them. The plugins stay usable.
func (m *VolumePluginMgr) Close() {
	m.probes.stop()
}

// Host returns the host that the plugins were given, with its defaults filled in.
func (m *VolumePluginMgr) Host() Host { return m.host }

// Register initialises the plugin and adds it. The error matches [ErrInvalid] if the name is not usable or taken.
func (m *VolumePluginMgr) Register(ctx context.Context, plugin VolumePlugin) error {
	registered, err := newRegistration(plugin)
	if err != nil {
		return err
	}
	if err := checkFree(m.plugins.Load().byName, registered.name, nil); err != nil {
		return err
	}
	if err := plugin.Init(ctx, m.host); err != nil {
		return fmt.Errorf("initialise plugin %s: %w", registered.name, err)
	}
	return m.put(registered, nil)
}

// Unregister removes the plugin of that name. What it has set up stays as it is. The error matches [ErrNotFound] if there
// is no such plugin.
func (m *VolumePluginMgr) Unregister(name string) error {
	return m.replace(func(byName map[string]*registration) error {
		if _, found := byName[name]; !found {
			return noSuchPlugin(name)
		}
		delete(byName, name)
		return nil
	})
}

// FindPluginBySpec returns the plugin that serves the spec. The error names the spec's source and matches [ErrNotSupported]
// if no plugin does; it matches [ErrInvalid] if two do, or if the spec sets no source or several.
func (m *VolumePluginMgr) FindPluginBySpec(spec *Spec) (VolumePlugin, error) {
	return m.plugins.Load().find(spec)
}

// FindPluginByName returns the plugin of that name, or an error that matches [ErrNotFound].
func (m *VolumePluginMgr) FindPluginByName(name string) (VolumePlugin, error) {
	registered, found := m.plugins.Load().byName[name]
	if !found {
		return nil, noSuchPlugin(name)
	}
	return registered.plugin, nil
}

// Plugins lists the plugins in the order of their names.
func (m *VolumePluginMgr) Plugins() []VolumePlugin {
	return m.plugins.Load().plugins()
}

// Changed returns a channel that is closed when the plugins change the next time: one is registered, replaced or gone.
func (m *VolumePluginMgr) Changed() <-chan struct{} {
	return m.plugins.Load().replaced
}

// Find returns the plugin that serves the spec as one that has the capability T, such as [AttachableVolumePlugin]. The
// error matches [ErrNotSupported] if the plugin does not have it; otherwise errors are those of
// [VolumePluginMgr.FindPluginBySpec].
func Find[T VolumePlugin](m *VolumePluginMgr, spec *Spec) (T, error) {
	var none T
	plugin, err := m.FindPluginBySpec(spec)
	if err != nil {
		return none, err
	}
	return withCapability[T](plugin)
}

// FindByName is [Find] for a plugin's name.
func FindByName[T VolumePlugin](m *VolumePluginMgr, name string) (T, error) {
	var none T
	plugin, err := m.FindPluginByName(name)
	if err != nil {
		return none, err
	}
	return withCapability[T](plugin)
}

// FindAll lists the plugins that have the capability T, in the order of their names.
func FindAll[T VolumePlugin](m *VolumePluginMgr) []T {
	var capable []T
	for _, plugin := range m.Plugins() {
		if p, ok := plugin.(T); ok {
			capable = append(capable, p)
		}
	}
	return capable
}

func withCapability[T VolumePlugin](plugin VolumePlugin) (T, error) {
	capable, ok := plugin.(T)
	if !ok {
		return capable, Errorf(ErrNotSupported, "plugin %s is no %s", plugin.Name(), reflect.TypeFor[T]().Name())
	}
	return capable, nil
}

// put adds a plugin, or puts it in the place of an earlier one, which is nil if there is none.
func (m *VolumePluginMgr) put(registered, earlier *registration) error {
	return m.replace(func(byName map[string]*registration) error {
		if err := checkFree(byName, registered.name, earlier); err != nil {
			return err
		}
		byName[registered.name] = registered
		return nil
	})
}

// checkFree returns an error if the name belongs to another plugin than the earlier one.
func checkFree(byName map[string]*registration, name string, earlier *registration) error {
	if current, taken := byName[name]; taken && current != earlier {
		return Errorf(ErrInvalid, "a plugin %s is registered already", name)
	}
	return nil
}

// replace makes the next registry from a copy of the plugins that change has worked on.
func (m *VolumePluginMgr) replace(change func(byName map[string]*registration) error) error {
	m.changing.Lock()
	defer m.changing.Unlock()
	byName := maps.Clone(m.plugins.Load().byName)
	if byName == nil {
		byName = make(map[string]*registration)
	}
	if err := change(byName); err != nil {
		return err
	}
	replaced := m.plugins.Swap(newRegistry(byName)).replaced
	close(replaced)
	return nil
}

func noSuchPlugin(name string) error {
	return Errorf(ErrNotFound, "no plugin %q is registered", name)
}

func logProbeError(ctx context.Context) func(string, error) {
	logger := klog.FromContext(ctx)
	return func(plugin string, err error) {
		if err == nil {
			logger.Info("Dynamic plugin works again or is gone", "plugin", plugin)
			return
		}
		logger.Error(err, "Dynamic plugin does not work", "plugin", plugin)
	}
}
