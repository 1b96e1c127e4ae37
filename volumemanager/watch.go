// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/mount-utils"

	"github.com/volumekit/volumekit/internal/mounttable"
)

// mountsSettle is how long mounts may come and go before it is looked whether one of a volume has vanished: there are many at
// once when pods come and go.
const mountsSettle = time.Second

// mountWatch tells when mounts may have vanished. Where mounts cannot be watched it never does.
type mountWatch struct {
	table    *mounttable.Table
	vanished <-chan struct{}
	stop     func()
}

func (m *Manager) watchMounts(ctx context.Context) mountWatch {
	if _, fake := m.host.Mounter.(*mount.FakeMounter); fake {
		return mountWatch{stop: func() {}} // its mounts are not the kernel's
	}
	table, err := mounttable.New()
	if err != nil {
		return notWatched(ctx, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	changed, err := mounttable.Watch(ctx)
	if err != nil {
		cancel()
		_ = table.Close()
		return notWatched(ctx, err)
	}
	vanished := make(chan struct{}, 1)
	go func() {
		for range changed {
			timer := m.host.Clock.NewTimer(mountsSettle)
			select {
			case <-ctx.Done():
			case <-timer.C():
			}
			timer.Stop()
			select {
			case vanished <- struct{}{}:
			default:
			}
		}
		close(vanished)
	}()
	return mountWatch{table: table, vanished: vanished, stop: func() {
		cancel()
		for range vanished { // until nobody waits for changes any more
		}
		_ = table.Close()
	}}
}

func notWatched(ctx context.Context, err error) mountWatch {
	if !errors.Is(err, errors.ErrUnsupported) {
		klog.FromContext(ctx).Error(err, "Cannot watch mounts: one that vanishes is noticed when a container starts, and by the next full pass")
	}
	return mountWatch{stop: func() {}}
}

// suspectVanished has those volumes verified whose mounts are not there any more, or are covered by others.
func (m *Manager) suspectVanished(ctx context.Context, table *mounttable.Table) {
	mounts, err := table.Mounts()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot read the mount table: mounts that vanished are noticed by the next full pass")
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	type place struct {
		volume *managedVolume
		pod    *managedPod
		point  string
		bare   bool // the mount is there, and nothing on top of it
	}
	ours := make(map[uint64]*place)
	for _, p := range m.pods {
		for _, v := range p.volumes {
			if v.there && v.record != nil && v.record.Mount != nil {
				ours[v.record.Mount.Mount] = &place{volume: v, pod: p}
			}
		}
	}
	for _, mount := range mounts {
		if is, ok := ours[mount.ID]; ok {
			is.point, is.bare = mount.Point, true
		}
	}
	for _, mount := range mounts {
		if on, ok := ours[mount.Parent]; ok && on.point == mount.Point {
			on.bare = false
		}
	}
	for _, is := range ours {
		if !is.bare {
			is.volume.suspect = true
			is.pod.kick()
		}
	}
}
