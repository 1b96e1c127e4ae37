// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/volumekit/volumekit/volume"
)

// following is how it is noticed that what a volume depends on changes. Its fields are guarded by the manager's mu.
type following struct {
	// of is what the volume was wanted as when references were asked for.
	of *podVolume

	// more is what the last resolution missed, beside the claim itself.
	more       volume.Reference
	references []volume.Reference
	stops      []func()

	// unwatched says that some references cannot be watched, so that the volume has to be refreshed from time to time.
	unwatched bool

	// refreshAt is when the volume has to be refreshed though nothing has changed, zero if it need not be.
	refreshAt time.Time
}

// follow watches what the volume depends on, from before it is looked at. mu is locked.
func (p *managedPod) follow(v *managedVolume) {
	f := &v.follows
	if !p.m.running || f.of == v.wanted {
		return
	}
	f.of = v.wanted
	references := v.references()
	if slices.Equal(references, f.references) {
		return
	}
	f.stop()
	f.of, f.references, f.unwatched = v.wanted, references, false
	for _, ref := range references {
		stop, ok := p.m.host.Watch(ref, func() { p.m.changes.add(p, v) })
		if ok {
			f.stops = append(f.stops, stop)
		} else {
			f.unwatched = true
		}
	}
}

// references lists what the volume depends on. mu is locked.
func (v *managedVolume) references() []volume.Reference {
	switch {
	case v.wanted == nil:
		return nil
	case !v.wanted.isResolved():
		references := []volume.Reference{v.wanted.claim.reference(v.wanted.pod)}
		if v.follows.more.Name != "" {
			references = append(references, v.follows.more)
		}
		return references
	}
	if refresher, ok := v.wanted.mounter.(volume.Refresher); ok {
		return refresher.References()
	}
	if v.wanted.canGrow() {
		return []volume.Reference{{Kind: volume.KindPersistentVolume, Name: v.wanted.given.Name()}}
	}
	return nil
}

// stop ends that anything is watched. mu is locked.
func (f *following) stop() {
	for _, stop := range f.stops {
		stop()
	}
	*f = following{more: f.more}
}

// planRefresh notes when a volume that was just set up has to be refreshed. mu is locked.
func (p *managedPod) planRefresh(v *managedVolume) {
	v.follows.refreshAt = time.Time{}
	if !p.m.running || v.wanted == nil || !v.wanted.requiresRemount() {
		return
	}
	refresher, ok := v.wanted.mounter.(volume.Refresher)
	if ok {
		v.follows.refreshAt = refresher.RefreshTime()
	}
	if !ok || v.follows.unwatched {
		// Not all at the same moment.
		periodic := p.m.host.Clock.Now().Add(wait.Jitter(p.m.options.RefreshPeriod, refreshJitter))
		if at := v.follows.refreshAt; at.IsZero() || periodic.Before(at) {
			v.follows.refreshAt = periodic
		}
	}
	if !v.follows.refreshAt.IsZero() {
		p.m.changes.plan(v.follows.refreshAt)
	}
}

// refreshJitter is the part of the period by which a refresh may be later.
const refreshJitter = 0.5

// refreshDue has those volumes refreshed whose time has come, and plans for the others.
func (m *Manager) refreshDue() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.host.Clock.Now()
	for _, p := range m.pods {
		for _, v := range p.volumes {
			switch at := v.follows.refreshAt; {
			case at.IsZero():
			case at.After(now):
				m.changes.plan(at)
			default:
				v.follows.refreshAt = time.Time{} // until it has been refreshed
				v.stale = true
				p.kick()
			}
		}
	}
}

// objectsChanged has those volumes looked at again whose objects have changed.
func (m *Manager) objectsChanged() {
	changed := m.changes.take()
	m.mu.Lock()
	defer m.mu.Unlock()
	for v, p := range changed {
		if m.pods[p.uid] != p || !slices.Contains(p.volumes, v) || v.wanted == nil {
			continue // it has gone meanwhile, or is to go
		}
		v.stale = true
		if v.running == nil {
			v.retry.reset()
		}
		p.kick()
	}
}

// neglect ends that the volume is followed and measured. mu is locked.
func (m *Manager) neglect(v *managedVolume) {
	v.follows.stop()
	v.measured = nil
	m.meter.Remove(v)
	delete(m.keptOut, v)
}

// neglectAll ends that anything is followed and measured.
func (m *Manager) neglectAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.pods {
		for _, v := range p.volumes {
			m.neglect(v)
		}
	}
	m.changes.take()
}

// changes are what sources of objects tell. They may do so at any time, so nothing is waited for here but its own mutex, which is
// held for no longer than that takes.
type changes struct {
	mu      sync.Mutex
	volumes map[*managedVolume]*managedPod
	next    time.Time // when something is to be refreshed, zero if nothing is

	// news has room for one: something has been added, or next has become earlier.
	news chan struct{}
}

func newChanges() *changes {
	return &changes{volumes: make(map[*managedVolume]*managedPod), news: make(chan struct{}, 1)}
}

// add notes that what the volume depends on has changed.
func (c *changes) add(p *managedPod, v *managedVolume) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.volumes[v] = p
	c.tell()
}

// take returns what has changed since it was called before.
func (c *changes) take() map[*managedVolume]*managedPod {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.volumes
	c.volumes = make(map[*managedVolume]*managedPod)
	return taken
}

// plan notes that something has to be refreshed at that time.
func (c *changes) plan(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next.IsZero() || at.Before(c.next) {
		c.next = at
		c.tell()
	}
}

// planned returns when something has to be refreshed, and forgets it if that time has come.
func (c *changes) planned(now time.Time) (at time.Time, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at = c.next
	due = !at.IsZero() && !at.After(now)
	if due {
		c.next = time.Time{}
	}
	return at, due
}

func (c *changes) tell() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}
