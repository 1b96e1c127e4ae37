// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// stat returns the type bits of what is at path, following symbolic links. It is what every pod start pays for each
// hostPath: one system call, without the rest that os.Stat returns.
func stat(path string) (fs.FileMode, error) {
	var st unix.Stat_t
	for {
		err := unix.Stat(path, &st)
		if err == nil {
			return fileType(st.Mode), nil
		}
		if err != unix.EINTR {
			return 0, &fs.PathError{Op: "stat", Path: path, Err: err}
		}
	}
}

// statNoLinks is stat for a path that is free of symbolic links. If it is not after all, the error matches ELOOP.
func statNoLinks(path string) (fs.FileMode, error) {
	fd, err := open(path, unix.O_PATH, false)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return 0, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return fileType(st.Mode), nil
}

func fileType(mode uint32) fs.FileMode {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return 0
	case unix.S_IFDIR:
		return fs.ModeDir
	case unix.S_IFLNK:
		return fs.ModeSymlink
	case unix.S_IFSOCK:
		return fs.ModeSocket
	case unix.S_IFCHR:
		return fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		return fs.ModeDevice
	case unix.S_IFIFO:
		return fs.ModeNamedPipe
	}
	return fs.ModeIrregular
}
