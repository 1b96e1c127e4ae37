// SPDX-License-Identifier: Apache-2.0

package blockmap

import (
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/loopdev"
	"github.com/volumekit/volumekit/volume"
)

// numberOf returns the number of a block device.
func numberOf(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return 0, volume.Errorf(volume.ErrInvalid, "%s is no block device", path)
	}
	return st.Rdev, nil
}

// node is what is at the place where a device's node is bound.
type node struct {
	exists bool
	bound  bool   // a block device is mounted there
	number uint64 // the device's
	id     loopdev.FileID
}

// state looks, and refuses what cannot have been put there by Map.
func (m Mapping) state() (node, error) {
	var st unix.Statx_t
	path := m.node()
	const flags, wanted = unix.AT_SYMLINK_NOFOLLOW | unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE | unix.STATX_SIZE | unix.STATX_INO
	err := unix.Statx(unix.AT_FDCWD, path, flags, wanted, &st)
	switch {
	case err == unix.ENOENT:
		return node{}, nil
	case err != nil:
		return node{}, &fs.PathError{Op: "statx", Path: path, Err: err}
	}
	mounted := st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
	switch kind := st.Mode & unix.S_IFMT; {
	case kind == unix.S_IFBLK && mounted:
		id := loopdev.FileID{Device: unix.Mkdev(st.Dev_major, st.Dev_minor), Inode: st.Ino}
		return node{exists: true, bound: true, number: unix.Mkdev(st.Rdev_major, st.Rdev_minor), id: id}, nil
	case kind == unix.S_IFREG && !mounted && st.Size == 0:
		return node{exists: true}, nil
	}
	return node{}, volume.Errorf(volume.ErrInUse,
		"%s is neither an empty file nor a device that is mounted there: somebody else put it there; remove it", path)
}
