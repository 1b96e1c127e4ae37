// SPDX-License-Identifier: Apache-2.0

package volumedir

import (
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// StatHidden tells what the mounts on path hide. It needs the right to mount.
func StatHidden(path string) (hidden unix.Stat_t, err error) {
	// A clone of the mount that holds path, without what is mounted in it.
	parent, err := unix.OpenTree(unix.AT_FDCWD, filepath.Dir(path), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return hidden, err
	}
	defer unix.Close(parent)
	err = unix.Fstatat(parent, filepath.Base(path), &hidden, unix.AT_SYMLINK_NOFOLLOW)
	return hidden, err
}

// HidesMode reports whether what the mounts on path hide is known to have the permissions.
func HidesMode(path string, mode fs.FileMode) bool {
	hidden, err := StatHidden(path)
	return err == nil && hidden.Mode&0o7777 == uint32(mode)
}
