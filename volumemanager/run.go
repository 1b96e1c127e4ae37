// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/volumekit/volumekit/volume"
)

// Run closes the difference between the pods that are wanted ([Manager.SetPod], [Manager.SetPods], [Manager.RemovePod]) and
// the volumes that are there, until ctx ends. First it does what [Manager.Recover] does, if that was not called. What fails is
// tried again, each volume with a backoff of its own that begins anew when its pod changes, or its plugin is registered.
//
// It works on events: what it is told, plugins that come and go, mounts that vanish, objects that change, what expires. A full pass, seldom, is there in case
// that an event was missed. When ctx ends it waits for the operations that are under way to end, or to be abandoned, and
// returns nil; volumes stay as they are. An error says that what is there cannot be found out.
func (m *Manager) Run(ctx context.Context) error {
	if err := m.checkOpen(); err != nil {
		return err
	}
	m.mu.Lock()
	if m.running || m.stopping {
		m.mu.Unlock()
		return volume.Errorf(volume.ErrInUse, "the volume manager of %s is running already", m.host.Root)
	}
	m.running, m.runContext = true, ctx
	m.mu.Unlock()
	defer m.stop()
	if err := m.Recover(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	m.settlers.Go(func() {
		if err := m.ReleaseDevices(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "Devices that no pod uses stay")
		}
	})
	mounts := m.watchMounts(ctx)
	defer mounts.stop()
	m.kickAll((*managedPod).suspectAll) // who knows since when nobody has looked
	defer m.neglectAll()
	defer m.runMeter(ctx)()
	resync := m.host.Clock.NewTimer(m.options.Resync)
	defer resync.Stop()
	for {
		now := m.host.Clock.Now()
		planned, due := m.changes.planned(now)
		if due {
			m.refreshDue()
			continue
		}
		var refresh <-chan time.Time
		stop := func() {}
		if !planned.IsZero() {
			timer := m.host.Clock.NewTimer(planned.Sub(now))
			refresh, stop = timer.C(), func() { timer.Stop() }
		}
		plugins := m.plugins.Changed()
		select {
		case <-ctx.Done():
			stop()
			return nil
		case <-plugins:
			m.kickAll((*managedPod).retryWithoutPlugin)
		case <-mounts.vanished:
			m.suspectVanished(ctx, mounts.table)
		case <-m.changes.news:
			m.objectsChanged()
		case <-refresh:
		case <-resync.C():
			m.kickAll((*managedPod).suspectAll)
			resync.Reset(m.options.Resync)
		}
		stop()
	}
}

// stop ends that pods are seen to, and waits for those who do.
func (m *Manager) stop() {
	m.mu.Lock()
	m.running, m.stopping = false, true
	m.mu.Unlock()
	m.settlers.Wait()
	m.mu.Lock()
	m.stopping = false
	m.mu.Unlock()
}

// kick makes sure that somebody sees to the pod, if the manager runs. mu is locked.
func (p *managedPod) kick() {
	p.tell()
	if !p.m.running || !p.m.recovered || p.settling {
		return
	}
	p.settling = true
	ctx := p.m.runContext
	p.m.settlers.Go(func() { p.settleTurn(ctx) })
}

func (p *managedPod) settleTurn(ctx context.Context) {
	release, err := p.m.turns.Acquire(ctx, string(p.uid))
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if err == nil { // else ctx has ended
		p.settle(ctx, untilDone)
		release()
	}
	p.settling = false
}

// kickAll has every pod seen to, after f.
func (m *Manager) kickAll(f func(*managedPod)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.pods {
		f(p)
		p.kick()
	}
}

// retryWithoutPlugin has those volumes tried again at once that failed for want of a plugin. mu is locked.
func (p *managedPod) retryWithoutPlugin() {
	for _, v := range p.volumes {
		if v.wanted == nil || v.wanted.err != nil {
			v.retry.reset()
		}
	}
}

// suspectAll has every volume of the pod verified. mu is locked.
func (p *managedPod) suspectAll() {
	for _, v := range p.volumes {
		v.suspect = v.there
	}
}
