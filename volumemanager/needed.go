// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/volumekit/volumekit/internal/abandon"
	"github.com/volumekit/volumekit/volume"
)

// begin begins the operations that are due, and reports whether it did, or found out something new. mu is locked.
func (s *settling) begin(ctx context.Context, now time.Time) bool {
	due := make(map[*managedVolume]Operation)
	for _, v := range s.volumes {
		s.follow(v)
		s.measure(v)
		if v.running != nil && v.running.of != v.wanted && (v.running.kind == OperationSetUp || v.running.kind == OperationRefresh) {
			v.running.cancel(errOvertaken)
		}
		if v.running == nil && s.isDue(&v.retry, now) {
			if operation := s.needed(v); operation != "" {
				due[v] = operation
			}
		}
	}
	if len(due) == 0 {
		return false
	}
	// What is wanted may change while mu is not locked; then what is due has to be found out again.
	if s.holdBack(ctx, due); s.changed {
		return true
	}
	s.keepOut(due)
	s.recordIntent(ctx, due)
	for _, v := range slices.Clone(s.volumes) {
		if operation, is := due[v]; is && v.running == nil {
			s.beginOperation(ctx, v, operation)
		}
	}
	return true
}

func (s *settling) beginOperation(ctx context.Context, v *managedVolume, operation Operation) {
	m, uid, name := s.m, s.uid, v.name
	var recorded volumeRecord
	if v.record != nil {
		recorded = *v.record
	}
	switch wanted := v.wanted; operation {
	case OperationResolve:
		v.stale = false
		s.managedPod.begin(ctx, v, operation, func(ctx context.Context, r *result) error { return m.resolveClaim(ctx, wanted, r) })
	case OperationSetUp, OperationRefresh:
		v.stale = false
		s.managedPod.begin(ctx, v, operation, func(ctx context.Context, r *result) error {
			if err := m.setUp(ctx, wanted, &recorded, r); err != nil || operation == OperationRefresh {
				return err
			}
			return wanted.giveToGroup(ctx, r)
		})
	case OperationExpand:
		v.stale = false
		s.managedPod.begin(ctx, v, operation, func(ctx context.Context, r *result) error { return m.expandIfGrown(ctx, wanted, r) })
	case OperationVerify:
		s.managedPod.begin(ctx, v, operation, func(ctx context.Context, _ *result) error { return verify(ctx, wanted, &recorded) })
	case OperationTearDown:
		s.tornDown[recorded.volumeID], v.there = true, false
		s.managedPod.begin(ctx, v, operation, func(ctx context.Context, r *result) error {
			err := m.tearDown(ctx, uid, name, &recorded, r)
			if err != nil && wanted != nil {
				err = fmt.Errorf("take away what is there before it can be set up: %w", err)
			}
			return err
		})
	}
}

// needed returns what has to be done to the volume, or nothing. mu is locked.
func (s *settling) needed(v *managedVolume) Operation {
	switch {
	case v.wanted == nil && s.wanted == nil:
		if v.record != nil && s.isLeaving() {
			return OperationTearDown
		}
		return ""
	case v.wanted == nil:
		return s.neededForStray(v)
	case v.there && (v.suspect || v.stale) && v.wanted.requiresRemount():
		return OperationRefresh
	case v.there && v.suspect:
		return OperationVerify
	case v.there && v.stale && v.wanted.canGrow():
		return OperationExpand
	case v.there, v.wanted.err != nil:
		return ""
	case v.record != nil && v.record.TearingDown:
		return OperationTearDown
	case !v.wanted.isResolved():
		return OperationResolve
	case s.effort == onceOnly && s.refuse(v):
		return ""
	case v.differs():
		return OperationTearDown
	}
	return OperationSetUp
}

// neededForStray is needed for a volume that a pod which is wanted does not have any more.
func (s *settling) neededForStray(v *managedVolume) Operation {
	if !s.isStray(v) {
		return ""
	}
	if s.effort == onceOnly {
		v.err = volume.Errorf(volume.ErrInUse, "it is set up, but the pod no longer has it: tear the pod down first")
		return ""
	}
	return OperationTearDown
}

// refuse reports whether the volume is there in another way than it is wanted.
func (s *settling) refuse(v *managedVolume) bool {
	if v.differs() {
		v.err = volume.Errorf(volume.ErrInUse, "it is set up from another source than the pod now has: tear the pod down first")
		return true
	}
	for _, other := range s.volumes {
		if other.wanted == nil && other.record != nil && other.name == v.name {
			v.err = volume.Errorf(volume.ErrInUse, "it is set up by plugin %s: tear the pod down first", other.id.Plugin)
			return true
		}
	}
	return false
}

// holdBack takes from due the volumes that are to be torn down, unless it is certain that no container uses them. mu is locked,
// and unlocked while the containers are asked for.
func (s *settling) holdBack(ctx context.Context, due map[*managedVolume]Operation) {
	inUse := func(v *managedVolume) bool { return due[v] == OperationTearDown && !v.record.TearingDown }
	if s.m.options.Containers == nil || !slices.ContainsFunc(s.volumes, inUse) {
		return
	}
	err := s.containersGone(ctx)
	if err == nil {
		return
	}
	for _, v := range s.volumes {
		if inUse(v) {
			v.fail(s.managedPod, err)
			delete(due, v)
		}
	}
	s.tell()
}

// containersGone returns an error unless it is certain that no container of the pod runs. mu is locked, and unlocked while
// they are asked for.
func (s *settling) containersGone(ctx context.Context) error {
	var running volume.Presence
	var err error
	if s.asking {
		err = errors.New("an earlier question has not been answered")
	} else {
		s.asking = true
		err = s.outside(ctx, func() (err error) {
			ctx, cancel := context.WithTimeout(ctx, s.m.options.Timeout)
			defer cancel()
			running, err = abandon.Run(ctx, func() (volume.Presence, error) { return s.ask(ctx) })
			return err
		})
		s.unanswered = s.asking
	}
	switch {
	case running == volume.Absent && err == nil:
		return nil
	case running == volume.Present:
		return volume.Errorf(volume.ErrInUse, "the pod's containers still run: the volume stays until they have ended")
	case err == nil:
		err = errors.New("no answer")
	}
	return volume.Errorf(volume.ErrUncertain, "it is not known whether the pod's containers still run, so the volume stays: %w", err)
}

// ask asks for the containers. If nobody waits for the answer any more, it has them asked for again at once.
func (p *managedPod) ask(ctx context.Context) (volume.Presence, error) {
	defer func() {
		p.m.mu.Lock()
		defer p.m.mu.Unlock()
		p.asking = false
		if p.unanswered {
			p.unanswered = false
			p.tryAtOnce()
		}
	}()
	return p.m.options.Containers.RunningContainers(ctx, p.uid)
}
