// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/volumekit/volumekit/volume"
)

// recordIntent records what is about to be done. It takes from due what must not be done without a record, or is not due any
// more because the pod has changed meanwhile. mu is locked, and unlocked for the I/O.
func (s *settling) recordIntent(ctx context.Context, due map[*managedVolume]Operation) {
	fresh, marked := make(map[*managedVolume]bool), make(map[*managedVolume]bool)
	for v, operation := range due {
		switch {
		case operation == OperationSetUp && (v.record == nil || v.record.isLost()):
			v.record = newVolumeRecord(v.wanted)
			fresh[v], s.unwritten = true, true
		case operation == OperationTearDown && !v.record.TearingDown:
			v.record.TearingDown, s.unwritten = true, true
			marked[v] = true
		}
	}
	// A mark stays only if the tearing down begins: a volume that may be in use again is not to be taken for one that is half
	// gone.
	defer func() {
		for v := range marked {
			if _, begins := due[v]; !begins {
				v.record.TearingDown, s.unwritten = false, true
			}
		}
	}()
	if !s.unwritten || !s.recordIsKnown() {
		return
	}
	var err error
	if s.wanted == nil {
		s.unwritten, s.marked = false, true
		err = s.outside(ctx, func() error { return markLeaving(s.m.host, s.uid) })
	} else {
		err = s.write(ctx)
	}
	if s.changed {
		clear(due)
	}
	if err == nil {
		return
	}
	if isFull(err) {
		err = volume.Errorf(volume.ErrExhausted, "%w", err)
	}
	for v := range fresh {
		v.record = nil
	}
	for v, operation := range due {
		// On a full disk what is torn down is what makes room, so that is done without the record.
		if operation != OperationTearDown || !isFull(err) {
			v.fail(s.managedPod, err)
			delete(due, v)
		}
	}
	s.tell()
}

// recordIsKnown reports whether it is known what to write. It is not for a pod whose record is damaged. mu is locked.
func (s *settling) recordIsKnown() bool { return s.wanted != nil || s.recorded != nil }

// write writes the pod's record. mu is locked, and unlocked for the I/O.
func (s *settling) write(ctx context.Context) error {
	r := &podRecord{}
	if s.wanted != nil {
		r.Pod = recordedPod(s.wanted)
	} else {
		r.Pod = s.recorded.Pod
	}
	for _, v := range s.volumes {
		if v.record != nil {
			r.Volumes = append(r.Volumes, *v.record)
		}
	}
	s.unwritten, s.unwrittenSince = false, time.Time{}
	marked := s.marked
	err := s.outside(ctx, func() error { return writeRecord(s.m.host, r, marked) })
	if err != nil {
		s.unwritten = true
		return err
	}
	s.recorded, s.marked = r, false
	return nil
}

// note writes what has changed in the record without anything having to wait for it. mu is locked.
func (s *settling) note(ctx context.Context) bool {
	if err := s.write(ctx); err != nil {
		if s.marked { // on disk the pod is leaving: nobody may rely on it
			return s.failed(ctx, err)
		}
		// What the volumes need is recorded already.
		klog.FromContext(ctx).V(2).Info("Cannot record what became of volumes", "pod", s.String(), "err", err)
		s.unwritten = false
	}
	return true
}

// noteDelay is how long what nothing has to wait for may be unwritten, so that several such things are written at once, or need
// not be because the pod leaves.
const noteDelay = 200 * time.Millisecond

// noteAt returns when what is unwritten is to be written.
func (s *settling) noteAt() time.Time {
	if s.unwrittenSince.IsZero() {
		s.unwrittenSince = s.m.host.Clock.Now()
	}
	return s.unwrittenSince.Add(noteDelay)
}
