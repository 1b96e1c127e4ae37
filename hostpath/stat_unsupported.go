// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package hostpath

import (
	"io/fs"
	"os"
)

// stat returns the type bits of what is at path, following symbolic links.
func stat(path string) (fs.FileMode, error) { return typeOf(os.Stat(path)) }

// statNoLinks is stat for a path that is free of symbolic links. On this system those that have appeared in its directories
// since it was resolved are followed.
func statNoLinks(path string) (fs.FileMode, error) { return typeOf(os.Lstat(path)) }

func typeOf(info fs.FileInfo, err error) (fs.FileMode, error) {
	if err != nil {
		return 0, err
	}
	return info.Mode().Type(), nil
}
