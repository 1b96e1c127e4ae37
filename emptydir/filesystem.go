// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/volumedir"
	"github.com/volumekit/volumekit/volume"
)

// setUpFileSystem sets up a volume of medium Memory or HugePages. The mount is what makes it whole: it appears with its
// owner and permissions, and a directory without it is what a crash left.
func (m *mounter) setUpFileSystem(ctx context.Context, owner ownership) error {
	// Without looking first: most often nothing is there.
	err := makeMountPoint(m.path)
	if errors.Is(err, fs.ErrExist) {
		there, err := m.plugin.look(m.path)
		if err != nil {
			return err
		}
		if there == mountPoint || there == listed {
			return m.verify(ctx, there)
		}
		if err := os.Chmod(m.path, mountPointMode); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	switch {
	case m.wanted.medium == v1.StorageMediumMemory:
		return volumedir.Exhausted(m.plugin.tmpfs.Mount(m.plugin.host.Mounter, m.path, m.options(owner)))
	case owner.mode&^hugetlbfsModes != 0:
		return m.mountHiddenHugetlbfs(ctx, owner)
	}
	return m.mountHugetlbfs(m.path, owner)
}

func (m *mounter) mountHugetlbfs(path string, owner ownership) error {
	options := append(m.options(owner), fmt.Sprintf("pagesize=%d", m.wanted.pageSize))
	err := m.plugin.mount("hugetlbfs", path, "hugetlbfs", options)
	if err == nil {
		return nil
	}
	if available := kernelPageSizes(); !slices.Contains(available, m.wanted.pageSize) {
		return volume.Errorf(volume.ErrNotSupported, "the kernel has no huge pages of %s (%s names: %s): %w",
			formatPageSize(m.wanted.pageSize), hugePagesDir, formatPageSizes(available), err)
	}
	return err
}

// hugetlbfsModes are the permissions that hugetlbfs takes as a mount option.
const hugetlbfsModes = 0o1777

// mountHiddenHugetlbfs mounts the volume with permissions that have to be set after mounting. Until they are, it is
// mounted beside its place, so that it is whole when it appears.
func (m *mounter) mountHiddenHugetlbfs(ctx context.Context, owner ownership) error {
	hidden := hiddenPath(m.path)
	if err := m.plugin.removeHidden(ctx, hidden, volume.TearDownOptions{}); err != nil { // what a crash left
		return err
	}
	if err := makeMountPoint(hidden); err != nil {
		return err
	}
	if err := m.mountHugetlbfs(hidden, owner); err != nil {
		return err
	}
	if err := os.Chmod(hidden, owner.fileMode()); err != nil {
		return err
	}
	if err := m.plugin.mount(hidden, m.path, "hugetlbfs", append([]string{"bind"}, m.plugin.flags...)); err != nil {
		return err
	}
	if err := m.plugin.remove(ctx, hidden, volume.TearDownOptions{}); err != nil {
		return volume.Errorf(volume.ErrUncertain, "the volume is mounted, but not removed from where it was made: %w", err)
	}
	return nil
}

// options returns the mount options that tmpfs and hugetlbfs have in common.
func (m *mounter) options(owner ownership) []string {
	options := append(slices.Clip(m.plugin.flags), fmt.Sprintf("mode=%#o", owner.mode))
	if owner.gid != noGroup {
		options = append(options, fmt.Sprintf("gid=%d", owner.gid))
	}
	if m.wanted.size > 0 {
		options = append(options, fmt.Sprintf("size=%d", m.wanted.size))
	}
	return options
}

// mount mounts. What could not be mounted where, and what to do about it, is said by the host's mounter.
func (p *Plugin) mount(source, target, fsType string, options []string) error {
	return volumedir.Exhausted(p.host.Mounter.MountSensitiveWithoutSystemd(source, target, fsType, options, nil))
}
