// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/volumekit/volumekit/internal/parallel"
	"github.com/volumekit/volumekit/volume"
)

// Recover takes over what an earlier manager has left below the root, from its records: it changes nothing, and asks no
// plugin. What it finds is in [Manager.Status] from then on. The volumes of pods that are wanted, or come to be, are adopted;
// those of pods that are not go once [Manager.SetPods] or [Manager.RemovePod] has said so; those whose plugin is not
// registered wait for it. Directories of pods of which nothing is recorded are another program's: they are left alone, and
// told in an [Event] and the log, once.
//
// [Manager.Run] calls it first. It is for programs that want to know what there is before they say what they want. The error
// says that this cannot be found out; a single pod of which that is so is in its status, and is tried again.
func (m *Manager) Recover(ctx context.Context) error {
	if err := m.checkOpen(); err != nil {
		return err
	}
	m.mu.Lock()
	done := m.recovered
	m.mu.Unlock()
	if done {
		return nil
	}
	recorded, foreign, err := podUIDs(m.host)
	if err != nil {
		return err
	}
	m.reportForeign(ctx, foreign)
	parallel.Each(len(recorded), atOnce, func(i int) { m.recoverPod(ctx, recorded[i]) })
	if ctx.Err() != nil {
		return fmt.Errorf("recover: %w", context.Cause(ctx))
	}
	m.mu.Lock()
	m.recovered = true
	m.mu.Unlock()
	return nil
}

func (m *Manager) recoverPod(ctx context.Context, uid types.UID) {
	release, err := m.turns.Acquire(ctx, string(uid))
	if err != nil {
		return
	}
	defer release()
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &settling{managedPod: m.pod(uid), effort: onceOnly}
	if s.loaded {
		return
	}
	begun := m.host.Clock.Now()
	err = s.load(ctx)
	if err != nil {
		s.failed(ctx, err)
	}
	s.publish(Event{Operation: OperationRecover, Duration: m.host.Clock.Since(begun), Err: err})
	s.tell()
}

// reportForeign tells of directories of pods of which nothing is recorded.
func (m *Manager) reportForeign(ctx context.Context, uids []types.UID) {
	if len(uids) == 0 {
		return
	}
	shown := uids[:min(len(uids), 5)]
	klog.FromContext(ctx).Info("Leaving alone directories of pods that were not set up here", "dir", m.host.PodsDir(), "count", len(uids), "first", shown)
	now := m.host.Clock.Now()
	for _, uid := range uids {
		m.events.publish(Event{Time: now, UID: uid, Operation: OperationRecover, Outcome: OutcomeFailed,
			Err: volume.Errorf(volume.ErrNotFound, "%s is left alone: nothing is recorded of the pod, so it was not set up here", m.host.PodDir(uid))})
	}
}
