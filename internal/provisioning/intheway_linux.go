// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/volume"
)

// NotDown says why the directory that elements lead to from path could not be opened, because of the element with the index failed.
func NotDown(path string, elements []string, failed int, err error) error {
	return InTheWay(filepath.Join(path, filepath.Join(elements[:min(failed+1, len(elements))]...)), err)
}

// InTheWay says what is wrong at a path where a directory was expected.
func InTheWay(path string, err error) error {
	switch err {
	case unix.ELOOP, unix.ENOTDIR:
		return volume.Errorf(volume.ErrInvalid, "%q is a symbolic link or no directory: %w", path, err)
	case unix.EXDEV:
		return volume.Errorf(volume.ErrInvalid, "something is mounted on %q: make that a base path of its own", path)
	case unix.ENOSPC, unix.EDQUOT:
		err = volume.Errorf(volume.ErrExhausted, "%w", err)
	case unix.ENAMETOOLONG:
		err = volume.Errorf(volume.ErrInvalid, "%w", err)
	}
	return &fs.PathError{Op: "open", Path: path, Err: err}
}
