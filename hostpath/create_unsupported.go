// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package hostpath

import (
	"io/fs"
	"os"
	"path/filepath"
)

// makeDirs makes a directory and what is missing above it, mode 0755 less the umask. On this system symbolic links on the
// way are followed.
func makeDirs(path string, _ bool) error { return os.MkdirAll(path, 0o755) }

// makeFile makes an empty file, with the mode less the umask. The directory has to exist.
func makeFile(path string, mode uint32, _ bool) error {
	file, err := os.OpenFile(filepath.Clean(path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(mode))
	if err != nil {
		return err
	}
	return file.Close()
}
