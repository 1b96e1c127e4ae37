// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"sync"
	"time"
)

// DynamicPluginProber finds plugins that come and go while the program runs, such as drivers in a directory.
type DynamicPluginProber interface {
	// Probe returns what has appeared, changed or vanished since the call before. The first call returns everything that
	// is there, at once, even if that is nothing; a later call waits for a change or for ctx to end. Calls do not overlap.
	//
	// Events may come together with an error: they count. An error about one plugin is an event with Err set, so that it
	// hides no other; the error result is about the probing itself, and Probe is called again after a pause.
	Probe(ctx context.Context) ([]ProbeEvent, error)
}

// ProbeEvent is a change of one plugin.
type ProbeEvent struct {
	// Op is what happened.
	Op ProbeOperation

	// Name is the plugin's name.
	Name string

	// Plugin is the plugin of that name, for ProbeAddOrUpdate. It is initialised by the manager, again and again until
	// that succeeds; until then a plugin of the same name that was probed before stays in use.
	Plugin VolumePlugin

	// Err says why what is there is no plugin, for ProbeAddOrUpdate; Plugin is nil then. It is reported. A plugin of the
	// same name that was probed before stays in use.
	Err error
}

// ProbeOperation is what happened to a plugin.
type ProbeOperation int

const (
	// ProbeAddOrUpdate says that a plugin is there, for the first time or changed.
	ProbeAddOrUpdate ProbeOperation = iota
	// ProbeRemove says that a plugin is gone. What it has set up stays as it is.
	ProbeRemove
)

// A plugin or a prober that fails is tried again after a pause that doubles from the first of these to the second.
const (
	firstProbeRetry = 100 * time.Millisecond
	lastProbeRetry  = time.Minute
)

// WaitForProbers returns once every prober has answered for the first time and every plugin that it found has been
// initialised or has failed once; or when ctx ends, with its error.
func (m *VolumePluginMgr) WaitForProbers(ctx context.Context) error {
	select {
	case <-m.probes.settled:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// probes are the goroutines behind the probers: one per prober, and one per plugin that is being initialised, so that a
// slow one delays no other.
type probes struct {
	probers []DynamicPluginProber

	cancel  context.CancelFunc
	running sync.WaitGroup

	first   sync.WaitGroup // what WaitForProbers waits for
	settled chan struct{}

	mu      sync.Mutex
	byName  map[string]*probedPlugin
	failing map[string]string // the last error reported, by plugin
}

// probedPlugin is what a prober has said of one name.
type probedPlugin struct {
	cancel context.CancelFunc // ends the attempts to initialise it
	inUse  *registration      // nil until one was initialised
}

func (p *probes) start(ctx context.Context, m *VolumePluginMgr) {
	ctx, p.cancel = context.WithCancel(ctx)
	p.settled = make(chan struct{})
	p.byName = make(map[string]*probedPlugin)
	p.failing = make(map[string]string)
	for _, prober := range p.probers {
		p.first.Add(1)
		p.running.Go(func() { p.run(ctx, m, prober) })
	}
	p.running.Go(func() {
		p.first.Wait()
		close(p.settled)
	})
}

func (p *probes) stop() {
	p.cancel()
	p.running.Wait()
}

func (p *probes) run(ctx context.Context, m *VolumePluginMgr, prober DynamicPluginProber) {
	answered := sync.OnceFunc(p.first.Done)
	defer answered()
	pause := firstProbeRetry
	for first := true; ctx.Err() == nil; first = false {
		events, err := prober.Probe(ctx)
		for _, event := range events {
			tried := func() {}
			if first {
				p.first.Add(1)
				tried = sync.OnceFunc(p.first.Done)
			}
			p.handle(ctx, m, event, tried)
		}
		if ctx.Err() != nil {
			return
		}
		p.report(m, "", err)
		answered()
		if err == nil {
			pause = firstProbeRetry
			continue
		}
		if !sleep(ctx, m, pause) {
			return
		}
		pause = min(2*pause, lastProbeRetry)
	}
}

// handle does what an event asks for and calls tried, now or later, when the plugin is in use or has failed once.
func (p *probes) handle(ctx context.Context, m *VolumePluginMgr, event ProbeEvent, tried func()) {
	p.mu.Lock()
	probed := p.byName[event.Name]
	if probed == nil {
		probed = &probedPlugin{}
		p.byName[event.Name] = probed
	}
	if probed.cancel != nil {
		probed.cancel()
		probed.cancel = nil
	}
	switch {
	case event.Op == ProbeRemove:
		delete(p.byName, event.Name)
		p.mu.Unlock()
		p.withdraw(m, event.Name, probed)
		tried()
	case event.Err != nil || event.Plugin == nil:
		p.mu.Unlock()
		err := event.Err
		if err == nil {
			err = errors.New("the prober found it but brought no plugin")
		}
		p.report(m, event.Name, err)
		tried()
	default:
		ctx, probed.cancel = context.WithCancel(ctx)
		p.mu.Unlock()
		p.running.Go(func() {
			defer tried()
			p.initialise(ctx, m, event.Name, event.Plugin, probed, tried)
		})
	}
}

// initialise tries until the plugin is in use or ctx ends: another event for its name has come, or the manager is closed.
func (p *probes) initialise(ctx context.Context, m *VolumePluginMgr, name string, plugin VolumePlugin, probed *probedPlugin, tried func()) {
	for pause := firstProbeRetry; ; pause = min(2*pause, lastProbeRetry) {
		err := p.use(ctx, m, name, plugin, probed)
		if ctx.Err() != nil {
			return
		}
		p.report(m, name, err)
		tried()
		if err == nil || !sleep(ctx, m, pause) {
			return
		}
	}
}

func (p *probes) use(ctx context.Context, m *VolumePluginMgr, name string, plugin VolumePlugin, probed *probedPlugin) error {
	if plugin.Name() != name {
		return Errorf(ErrInvalid, "the prober calls it %q, but its own name is %q", name, plugin.Name())
	}
	if err := checkPlugin(plugin); err != nil {
		return err
	}
	if err := plugin.Init(ctx, m.host); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err() // a later event has overtaken this one
	}
	registered := &registration{plugin}
	err := m.replace(func(byName map[string]*registration) error {
		if current, taken := byName[name]; taken && current != probed.inUse {
			return nameTaken(name)
		}
		byName[name] = registered
		return nil
	})
	if err == nil {
		probed.inUse = registered
	}
	return err
}

func (p *probes) withdraw(m *VolumePluginMgr, name string, probed *probedPlugin) {
	p.mu.Lock()
	inUse := probed.inUse
	p.mu.Unlock()
	// The error is that somebody has replaced or unregistered the plugin, which is his from then on.
	_ = m.replace(func(byName map[string]*registration) error {
		if inUse == nil || byName[name] != inUse {
			return noSuchPlugin(name)
		}
		delete(byName, name)
		return nil
	})
	p.report(m, name, nil)
}

// report passes an error on if it differs from the one before.
func (p *probes) report(m *VolumePluginMgr, name string, err error) {
	p.mu.Lock()
	last, failed := p.failing[name]
	if err == nil {
		delete(p.failing, name)
	} else {
		p.failing[name] = err.Error()
	}
	p.mu.Unlock()
	if err == nil && failed || err != nil && last != err.Error() {
		m.onError(name, err)
	}
}

// sleep waits and reports whether ctx still goes on.
func sleep(ctx context.Context, m *VolumePluginMgr, d time.Duration) bool {
	timer := m.host.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}
