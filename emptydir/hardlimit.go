// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"context"
	"errors"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/hardlimit"
	"github.com/volumekit/volumekit/internal/program"
	"github.com/volumekit/volumekit/internal/volumedir"
	"github.com/volumekit/volumekit/volume"
)

// lookForLimit looks at the volume, and tells whether it is one with a limit that the kernel enforces, other than by the size of a
// tmpfs or hugetlbfs: it is to be one, or it has an image from when there were other options, and whatever was written is in there.
func (m *mounter) lookForLimit() (there state, limited bool, err error) {
	there, mode, err := m.plugin.lookAt(m.path)
	switch {
	case err != nil || m.wanted.medium != v1.StorageMediumDefault:
	case m.plugin.hardLimits && m.wanted.size > 0:
		limited = true
	case there == unmounted && mode == hardlimit.MountPointMode:
		limited, err = hardlimit.HasImage(m.path)
	}
	return there, limited, err
}

// setUpLimited sets up a volume of medium "" with a limit. Its directory is there already, or that of its image is made where it
// is mounted: [hardlimit.Apply] goes on from any state.
func (m *mounter) setUpLimited(ctx context.Context, there state, owner ownership) error {
	if there == absent {
		if err := m.plugin.makeDirectory(ctx, m.path, owner); err != nil {
			return err
		}
	}
	bytes := uint64(m.wanted.size)
	if bytes == 0 {
		bytes = 1 // there is an image, and it is large enough
	}
	kind, err := hardlimit.Apply(ctx, m.path, hardlimit.Options{
		Bytes:        bytes,
		MountOptions: m.plugin.flags,
		Prepare:      func(root *os.File) error { return owner.give(root) },
		Mounter:      m.plugin.host.Mounter,
		Exec:         m.plugin.host.Exec,
	})
	if err != nil {
		return limitError(err)
	}
	switch there, err := m.plugin.look(m.path); {
	case err != nil:
		return err
	case there == mountPoint || there == listed:
		return m.verify(ctx, there)
	case kind == hardlimit.Project && len(m.plugin.flags) > 0:
		return m.plugin.bindOntoItself(m.path)
	}
	return nil
}

// limitedPresence tells whether a volume is there that is to have a limit, or has an image.
func (m *mounter) limitedPresence(ctx context.Context, there state) (volume.Presence, error) {
	found, err := hardlimit.Find(ctx, m.path, "")
	if err != nil {
		return volume.Unknown, err
	}
	if there == mountPoint || there == listed {
		if err := m.verify(ctx, there); err != nil {
			return volume.Unknown, err
		}
	}
	if !found.Enforced() || there == unmounted && len(m.plugin.flags) > 0 {
		return volume.Absent, nil // SetUp goes on
	}
	return volume.Present, nil
}

// limitedMetrics are those of a volume with a limit; false if it has none. Nothing is counted for them.
func (m *mounter) limitedMetrics(ctx context.Context) (volume.Metrics, bool, error) {
	if m.wanted.medium != v1.StorageMediumDefault || !haveMounts {
		return volume.Metrics{}, false, nil
	}
	used, err := hardlimit.UsageOf(ctx, m.path, "")
	if errors.Is(err, os.ErrNotExist) {
		return volume.Metrics{}, false, nil
	}
	if err != nil {
		return volume.Metrics{}, false, err
	}
	metrics, err := volumedir.Metrics(ctx, m.path, m.plugin.host.Clock.Now(), true)
	if err != nil {
		return volume.Metrics{}, false, err
	}
	metrics.Used, metrics.InodesUsed = int64(used.Bytes), int64(used.Inodes)
	metrics.Limit, metrics.LimitEnforced = m.wanted.size, true
	if metrics.Limit == 0 {
		metrics.Limit = int64(used.Limit)
	}
	return metrics, true, nil
}

// removeLimit takes away what enforces a limit, with an image and what is in it. Most volumes have nothing of the kind.
func (p *Plugin) removeLimit(ctx context.Context, path string) error {
	err := hardlimit.Remove(ctx, path, hardlimit.Options{Mounter: p.host.Mounter, Exec: p.host.Exec})
	if err == nil {
		return nil
	}
	if errors.Is(err, hardlimit.ErrInUse) {
		return volume.Errorf(volume.ErrInUse, "%w", err)
	}
	return volumedir.WhyInUse(p.host.Mounter, path, err)
}

// limitError gives an error its kind.
func limitError(err error) error {
	switch {
	case errors.Is(err, hardlimit.ErrInUse):
		return volume.Errorf(volume.ErrInUse, "%w", err)
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, program.ErrNotFound):
		return volume.Errorf(volume.ErrNotSupported, "%w", err)
	}
	return volumedir.Exhausted(fmt.Errorf("emptyDir.sizeLimit: %w", err))
}

// give gives an open directory its owner and permissions.
func (o ownership) give(dir *os.File) error {
	if o.gid != noGroup {
		if err := dir.Chown(-1, int(o.gid)); err != nil {
			return fmt.Errorf("give the volume to the fsGroup: %w", err)
		}
	}
	// After chown, which may take away the setgid bit: chown(2).
	return dir.Chmod(o.fileMode())
}
