// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/descent"
	"github.com/volumekit/volumekit/internal/provisioning"
	"github.com/volumekit/volumekit/volume"
)

// descend opens the directory that elements lead to from base, for reading, without following a symbolic link or entering
// a mount. If mode is not 0, what is missing is made with that mode. path is that of base, for errors.
func descend(base int, path string, elements []string, mode uint32) (int, error) {
	var make func(int, string) error
	if mode != 0 {
		make = func(dir int, name string) error { return mkdir(dir, name, mode) }
	}
	fd, failed, err := descent.Down(base, elements, make)
	if err != nil {
		return -1, provisioning.NotDown(path, elements, failed, err)
	}
	return fd, nil
}

// removeEmpty removes the directories above the last of elements, the deepest first, up to the first one that is not
// removable or not empty.
func removeEmpty(base int, elements []string, removable func(unix.Stat_t) bool) {
	for n := len(elements) - 1; n > 0; n-- {
		parent, err := descend(base, "", elements[:n-1], 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return
		}
		var stat unix.Stat_t
		err = unix.Fstatat(parent, elements[n-1], &stat, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil && !removable(stat) {
			err = unix.EEXIST
		}
		if err == nil {
			err = unix.Unlinkat(parent, elements[n-1], unix.AT_REMOVEDIR)
		}
		unix.Close(parent)
		if err != nil && err != unix.ENOENT {
			return
		}
	}
}

func syncDir(fd int, path string) error {
	if err := unix.Fsync(fd); err != nil {
		return pathError("sync", path, err)
	}
	return nil
}

func pathError(op, path string, err error) error {
	switch err {
	case unix.ENOSPC, unix.EDQUOT:
		err = volume.Errorf(volume.ErrExhausted, "%w", err)
	case unix.ENAMETOOLONG:
		err = volume.Errorf(volume.ErrInvalid, "%w", err)
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}
