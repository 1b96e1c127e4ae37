// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"context"
	"os"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/abandon"
	"github.com/volumekit/volumekit/internal/volumedir"
)

// haveMounts says that the system has the mounts that volumes of a medium other than "" are made of.
const haveMounts = true

// mountState is stateOf without words for errors. What is mounted at path is not asked.
func (p *Plugin) mountState(path string) (state, error) {
	mounted, err := p.host.Mounter.IsMountPoint(path)
	if !mounted || err != nil {
		return unmounted, err
	}
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	var stat unix.Statx_t
	err = unix.Statx(unix.AT_FDCWD, path, flags, unix.STATX_TYPE, &stat)
	for err == unix.EINTR {
		err = unix.Statx(unix.AT_FDCWD, path, flags, unix.STATX_TYPE, &stat)
	}
	switch {
	case err == unix.ENOSYS:
		return mountPoint, nil
	case err != nil:
		return unmounted, &os.PathError{Op: "statx", Path: path, Err: err}
	case stat.Mode&unix.S_IFMT == unix.S_IFLNK:
		return unmounted, nil // wherever it leads to
	case stat.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 && stat.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0:
		return listed, nil
	}
	return mountPoint, nil // as far as a kernel before 5.8 can tell
}

// renameNew renames, unless there is something at the new path. Some file systems cannot do that in one step.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	switch err {
	case nil:
		return nil
	case unix.EINVAL, unix.ENOSYS:
		return os.Rename(from, to)
	}
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
}

// statMount tells which file system is at path, without a description.
func statMount(ctx context.Context, path string) (mounted, error) {
	// Whatever is mounted there may not answer.
	return abandon.Run(ctx, func() (mounted, error) {
		var st unix.Statfs_t
		err := unix.Statfs(path, &st)
		for err == unix.EINTR {
			err = unix.Statfs(path, &st)
		}
		if err != nil {
			return mounted{}, err
		}
		shown := mounted{flags: []string{}}
		switch uint32(st.Type) { // signed, and of 32 bits on some architectures
		case unix.TMPFS_MAGIC:
			shown.kind = tmpfs
		case unix.HUGETLBFS_MAGIC:
			shown.kind, shown.pageSize = hugetlbfs, int64(st.Bsize)
		}
		for _, flag := range []struct {
			bit  int64
			name string
		}{{unix.ST_NOEXEC, "noexec"}, {unix.ST_NOSUID, "nosuid"}, {unix.ST_NODEV, "nodev"}} {
			if int64(st.Flags)&flag.bit != 0 {
				shown.flags = append(shown.flags, flag.name)
			}
		}
		return shown, nil
	})
}

// isSelfBind reports whether what is mounted on path is the directory that the mount hides. It is false too if that cannot
// be found out, as without the right to mount, which is the right to unmount.
func isSelfBind(path string) bool {
	hidden, err := volumedir.StatHidden(path)
	var shown unix.Stat_t
	return err == nil && unix.Lstat(path, &shown) == nil && hidden.Dev == shown.Dev && hidden.Ino == shown.Ino
}

// hidesMountPoint reports whether what the mount on path hides is the directory of a volume that is a mount, rather than one
// that is a directory. It is true too if that cannot be found out, as without the right to mount, which is the right to unmount.
func hidesMountPoint(path string) bool {
	hidden, err := volumedir.StatHidden(path)
	return err != nil || hidden.Mode&0o7777 == uint32(mountPointMode)
}
