// SPDX-License-Identifier: Apache-2.0

package mounter

import (
	"os"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// IsMountPoint tells whether file, after symbolic links, is a mount point, of bind mounts too. That is one system call, which
// the server of a network file system that is mounted on file is not asked for, so that it need not be alive. A file
// that does not exist gives an error that matches [io/fs.ErrNotExist].
//
// Linux before 5.8 does not give the answer that cheaply; there the cost may grow with the mount table.
func (m *Mounter) IsMountPoint(file string) (bool, error) { return isMountPoint(file) }

// IsLikelyNotMountPoint is the contrary of [Mounter.IsMountPoint], just as certain, and true when there is an error.
func (m *Mounter) IsLikelyNotMountPoint(file string) (bool, error) {
	mounted, err := isMountPoint(file)
	return !mounted, err
}

// isMountPoint returns errors as *os.PathError: callers of mount-utils use os.IsNotExist and mount.IsCorruptedMnt, which do
// not look further.
func isMountPoint(file string) (bool, error) {
	// With an empty mask no attribute of the file is asked for, of which the server would have to know.
	const flags, mask = unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC, 0
	var stat unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, file, flags, mask, &stat)
	for err == unix.EINTR {
		err = unix.Statx(unix.AT_FDCWD, file, flags, mask, &stat)
	}
	switch {
	case err == unix.ENOSYS, err == nil && stat.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0:
		// openat2 with RESOLVE_NO_XDEV, and the mount table where that is missing too.
		return mountinfo.Mounted(file)
	case err != nil:
		return false, &os.PathError{Op: "statx", Path: file, Err: err}
	}
	return stat.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}
