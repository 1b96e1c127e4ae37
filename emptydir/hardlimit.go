// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/hardlimit"
	"github.com/volumekit/volumekit/internal/projectquota"
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
		limited, err = hasImage(m.path)
	}
	return there, limited, err
}

// imagePath is where the image of a volume is: in a directory that [Plugin.removeHidden] removes.
func imagePath(path string) string { return filepath.Join(hiddenPath(path), "image") }

func hasImage(path string) (bool, error) {
	_, err := os.Lstat(imagePath(path))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	return err == nil, err
}

// setUpLimited sets up a volume of medium "" with a limit: [hardlimit.Apply] goes on from any state.
func (m *mounter) setUpLimited(ctx context.Context, there state, owner ownership) error {
	if there == absent {
		if err := m.makeLimited(ctx, owner); err != nil {
			return err
		}
	}
	hidden := hiddenPath(m.path) // for the image, if there will be one
	if err := os.Mkdir(hidden, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return volumedir.Exhausted(err)
	}
	kind, err := hardlimit.Apply(ctx, m.path, hardlimit.Options{
		Bytes:        uint64(max(m.wanted.size, 1)), // an image that is there is large enough
		Image:        imagePath(m.path),
		MountOptions: m.plugin.flags,
		Prepare:      func(root *os.File) error { return owner.give(root) },
		Mounter:      m.plugin.host.Mounter,
		Exec:         m.plugin.host.Exec,
	})
	if err != nil {
		return volumedir.LimitError("emptyDir.sizeLimit", err)
	}
	if kind == hardlimit.Project {
		m.plugin.projects.Store(anyProjects)
		if err := m.plugin.removeHidden(ctx, hidden, volume.TearDownOptions{}); err != nil {
			return err
		}
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

// makeLimited makes the directory, or what an image is mounted on if there is one.
func (m *mounter) makeLimited(ctx context.Context, owner ownership) error {
	switch has, err := hasImage(m.path); {
	case err != nil:
		return err
	case has:
		return makeMountPoint(m.path)
	}
	return m.plugin.makeDirectory(ctx, m.path, owner)
}

// limitedPresence tells whether a volume is there that is to have a limit, or has an image.
func (m *mounter) limitedPresence(ctx context.Context, there state) (volume.Presence, error) {
	found, err := hardlimit.Find(ctx, m.path, imagePath(m.path))
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
	metrics, err := volumedir.LimitedMetrics(ctx, m.path, imagePath(m.path), m.plugin.host.Clock.Now(), m.wanted.size)
	if errors.Is(err, os.ErrNotExist) {
		return volume.Metrics{}, false, nil
	}
	return metrics, err == nil, err
}

// projects says whether volumes may have project quotas: 0 as long as that is not known, else one of the two below.
type projects struct{ atomic.Int32 }

const (
	noProjects  = 1
	anyProjects = 2
)

// liftLimit forgets the project quota of a volume, if there can be one. An image goes with its mount and the hidden directory.
func (p *Plugin) liftLimit(ctx context.Context, path string) error {
	if p.projects.Load() == 0 {
		switch err := projectquota.Supported(filepath.Dir(path)); {
		case err == nil:
			p.projects.Store(anyProjects)
		case errors.Is(err, errors.ErrUnsupported):
			p.projects.CompareAndSwap(0, noProjects)
		}
	}
	if p.projects.Load() == noProjects {
		return nil
	}
	if err := hardlimit.Lift(ctx, path); err != nil {
		return fmt.Errorf("tear down the volume at %s: %w", path, err)
	}
	return nil
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
