// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"

	"github.com/volumekit/volumekit/volume"
)

// effort is how hard a pod is settled.
type effort int

const (
	// onceOnly tries everything once, and changes nothing that the pod may be using.
	onceOnly effort = iota
	// untilDone tries again and again, and replaces what the pod wants in another way now.
	untilDone
)

// settle brings the pod's volumes to where they should be. It returns when nothing is left to do, or to wait for, at the
// moment. It is called by one goroutine at a time for a pod, with mu locked.
func (p *managedPod) settle(ctx context.Context, effort effort) {
	s := &settling{managedPod: p, effort: effort, tornDown: make(map[volumeID]bool)}
	for s.step(ctx) {
	}
	p.tell()
}

// settling is the work of one call of settle.
type settling struct {
	*managedPod
	effort   effort
	tornDown map[volumeID]bool

	// unwrittenSince is when unwritten was noticed, zero if it was not since the last write.
	unwrittenSince time.Time
}

// step does the next thing, and reports whether there may be more to do. mu is locked, but while it waits or does I/O.
func (s *settling) step(ctx context.Context) bool {
	now := s.m.host.Clock.Now()
	if s.isDue(&s.retry, now) {
		if err := s.prepare(ctx); err != nil {
			return s.failed(ctx, err)
		}
		if s.begin(ctx, now) {
			return true
		}
	}
	switch {
	case s.unfinished():
		s.waitForNews()
		return true
	case s.err != nil:
		return s.waitForRetry(ctx)
	case s.isLeaving() && len(s.volumes) == 0:
		return s.remove(ctx)
	}
	s.retry.reset()
	if s.unwritten && s.wanted != nil && (s.effort == onceOnly || s.marked || !now.Before(s.noteAt())) {
		return s.note(ctx)
	}
	if s.effort == onceOnly {
		return s.waitForAbandoned(ctx)
	}
	return s.waitForRetry(ctx)
}

// isDue reports whether something may be tried now.
func (s *settling) isDue(r *retry, now time.Time) bool {
	if s.effort == onceOnly {
		return r.failures == 0
	}
	return !r.next.After(now)
}

// nextTry returns when something is to be tried again, zero if nothing is. mu is locked.
func (s *settling) nextTry() time.Time {
	if s.err != nil {
		return s.retry.next // before that nothing is done for its volumes either
	}
	var next time.Time
	earlier := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	if s.unwritten && s.wanted != nil {
		earlier(s.noteAt())
	}
	for _, v := range s.volumes {
		if v.running == nil && s.needed(v) != "" {
			earlier(v.retry.next)
		}
	}
	return next
}

// failed notes that nothing can be done for the pod as a whole. mu is locked.
func (s *settling) failed(ctx context.Context, err error) bool {
	s.err = err
	s.retry.fail(s.m.host.Clock.Now(), s.m.options.Backoff)
	klog.FromContext(ctx).V(2).Info("Cannot see to a pod", "pod", s.String(), "err", err)
	s.tell()
	return s.effort == untilDone && ctx.Err() == nil
}

// prepare finds out what there is, and what is wanted. mu is locked.
func (s *settling) prepare(ctx context.Context) error {
	s.err = nil
	if !s.loaded {
		if err := s.load(ctx); err != nil {
			return err
		}
	}
	if s.wanted != nil && s.recorded != nil {
		if known := s.recorded.Pod; known.Namespace != s.wanted.Namespace || known.Name != s.wanted.Name {
			return volume.Errorf(volume.ErrInvalid, "its UID %s is that of pod %s, which has volumes here", s.uid, podName(known))
		}
	}
	if s.changed && s.wanted != nil && (s.marked || s.recorded == nil || !equality.Semantic.DeepEqual(s.recorded.Pod, recordedPod(s.wanted))) {
		s.unwritten = true
	}
	unresolved := slices.ContainsFunc(s.volumes, func(v *managedVolume) bool { return v.wanted != nil && v.wanted.err != nil })
	if s.changed || unresolved {
		s.arrange()
	}
	return nil
}

// outside does f, which does I/O, without mu.
func (s *settling) outside(ctx context.Context, f func() error) error {
	s.m.mu.Unlock()
	defer s.m.mu.Lock()
	return s.m.slots.do(ctx, f)
}

// remove takes away what is left of a pod whose volumes are gone. mu is locked, and unlocked for the I/O.
func (s *settling) remove(ctx context.Context) bool {
	begun := s.m.host.Clock.Now()
	var left []volumeID
	recorded := s.recorded != nil
	err := s.outside(ctx, func() (err error) {
		left, err = s.m.removePod(ctx, s.uid, recorded)
		return err
	})
	if err != nil {
		return s.failed(ctx, err)
	}
	if len(left) == 0 {
		s.publish(Event{Operation: OperationRemove, Duration: s.m.host.Clock.Since(begun)})
		s.recorded, s.loaded = nil, false
		if s.isLeaving() && !s.changed {
			s.m.forget(s.managedPod)
			return false
		}
		return true // it is wanted again
	}
	for _, id := range left {
		if s.tornDown[id] {
			return s.failed(ctx, fmt.Errorf("plugin %s reported that volume %q is gone, but its directory is there", id.Plugin, id.Name))
		}
		s.volumes = append(s.volumes, &managedVolume{id: id, name: id.Name, record: &volumeRecord{volumeID: id, Volume: id.Name},
			path: pathOf(s.m.plugins, s.uid, id)})
	}
	return true
}

// waitForNews waits until something about the pod has changed. Operations end, or are abandoned, when their contexts do. mu is
// locked, and unlocked while it waits.
func (s *settling) waitForNews() { s.wait(context.Background()) }

// waitForAbandoned waits for operations that an earlier call has left behind. mu is locked, and unlocked while it waits.
func (s *settling) waitForAbandoned(ctx context.Context) bool {
	isRunning := func(v *managedVolume) bool { return v.running != nil }
	if !slices.ContainsFunc(s.volumes, isRunning) {
		return false
	}
	if s.wait(ctx) {
		return true
	}
	for _, v := range s.volumes {
		if isRunning(v) {
			v.err = volume.Errorf(volume.ErrUncertain, "an earlier operation has not ended: %w", context.Cause(ctx))
			v.interrupted = true
		}
	}
	return false
}

// waitForRetry waits until something about the pod has changed, or is to be tried again. It returns false if nothing is, or
// if ctx ends. mu is locked, and unlocked while it waits.
func (s *settling) waitForRetry(ctx context.Context) bool {
	if s.effort == onceOnly || ctx.Err() != nil {
		return false
	}
	next := s.nextTry()
	if next.IsZero() {
		return false
	}
	news := s.news
	s.m.mu.Unlock()
	defer s.m.mu.Lock()
	timer := s.m.host.Clock.NewTimer(next.Sub(s.m.host.Clock.Now()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
	case <-news:
	}
	return true
}
