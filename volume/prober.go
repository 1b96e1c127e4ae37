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
}

func (p *probes) start(ctx context.Context, m *VolumePluginMgr) {
	ctx, p.cancel = context.WithCancel(ctx)
	p.settled = make(chan struct{})
	for _, prober := range p.probers {
		p.first.Add(1)
		probing := &probing{probes: p, m: m, prober: prober, byName: make(map[string]*probedPlugin)}
		p.running.Go(func() { probing.run(ctx) })
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

// probing is one prober, and what it has said. What another one says is about other plugins, even if they have the same
// name: of those, one is in use, and the others are tried again as long as they are there.
type probing struct {
	*probes
	m      *VolumePluginMgr
	prober DynamicPluginProber

	failing failing
	byName  map[string]*probedPlugin
}

// probedPlugin is what a prober has said of one name.
type probedPlugin struct {
	name    string
	cancel  context.CancelFunc // ends the attempts to initialise it
	failing failing

	mu    sync.Mutex
	inUse *registration // nil until one was initialised
}

func (p *probing) run(ctx context.Context) {
	answered := sync.OnceFunc(p.first.Done)
	defer answered()
	pause := firstProbeRetry
	for first := true; ctx.Err() == nil; first = false {
		events, err := p.prober.Probe(ctx)
		for _, event := range events {
			tried := func() {}
			if first {
				p.first.Add(1)
				tried = sync.OnceFunc(p.first.Done)
			}
			p.handle(ctx, event, tried)
		}
		if ctx.Err() != nil {
			return
		}
		p.failing.report(ctx, p.m, "", err)
		answered()
		if err == nil {
			pause = firstProbeRetry
			continue
		}
		if !sleep(ctx, p.m, pause) {
			return
		}
		pause = min(2*pause, lastProbeRetry)
	}
}

// handle does what an event asks for and calls tried, now or later, when the plugin is in use or has failed once.
func (p *probing) handle(ctx context.Context, event ProbeEvent, tried func()) {
	probed := p.byName[event.Name]
	if probed == nil {
		probed = &probedPlugin{name: event.Name}
		p.byName[event.Name] = probed
	}
	if probed.cancel != nil {
		probed.cancel()
		probed.cancel = nil
	}
	switch {
	case event.Op == ProbeRemove:
		delete(p.byName, event.Name)
		probed.withdraw(p.m)
		probed.failing.report(ctx, p.m, event.Name, nil)
		tried()
	case event.Err != nil || event.Plugin == nil:
		err := event.Err
		if err == nil {
			err = errors.New("the prober found it but brought no plugin")
		}
		probed.failing.report(ctx, p.m, event.Name, err)
		tried()
	default:
		ctx, probed.cancel = context.WithCancel(ctx)
		p.running.Go(func() {
			defer tried()
			probed.initialise(ctx, p.m, event.Plugin, tried)
		})
	}
}

// initialise tries until the plugin is in use or ctx ends: another event for its name has come, or the manager is closed.
func (p *probedPlugin) initialise(ctx context.Context, m *VolumePluginMgr, plugin VolumePlugin, tried func()) {
	for pause := firstProbeRetry; ; pause = min(2*pause, lastProbeRetry) {
		err := p.use(ctx, m, plugin)
		p.failing.report(ctx, m, p.name, err)
		tried()
		if err == nil || !sleep(ctx, m, pause) {
			return
		}
	}
}

func (p *probedPlugin) use(ctx context.Context, m *VolumePluginMgr, plugin VolumePlugin) error {
	registered, err := newRegistration(plugin)
	if err != nil {
		return err
	}
	if registered.name != p.name {
		return Errorf(ErrInvalid, "the prober calls it %q, but its own name is %q", p.name, registered.name)
	}
	p.mu.Lock()
	inUse := p.inUse
	p.mu.Unlock()
	if err := checkFree(m.plugins.Load().byName, p.name, inUse); err != nil {
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
	if err := m.put(registered, p.inUse); err != nil {
		return err
	}
	p.inUse = registered
	return nil
}

// withdraw takes the plugin out of use, unless somebody has unregistered or replaced it: then it is his.
func (p *probedPlugin) withdraw(m *VolumePluginMgr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inUse == nil {
		return
	}
	_ = m.replace(func(byName map[string]*registration) error {
		if byName[p.name] != p.inUse {
			return noSuchPlugin(p.name)
		}
		delete(byName, p.name)
		return nil
	})
}

// failing is what was reported last of a plugin, or of a prober.
type failing struct {
	// It is held while somebody is told, so that what is said of one plugin comes in the order in which it happens.
	mu   sync.Mutex
	last error
}

// report passes an error on if it differs from the one before, unless ctx has ended: a later event counts more.
func (f *failing) report(ctx context.Context, m *VolumePluginMgr, plugin string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return
	case err == nil && f.last == nil:
		return
	case err != nil && f.last != nil && err.Error() == f.last.Error():
		return
	}
	f.last = err
	m.onError(plugin, err)
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
