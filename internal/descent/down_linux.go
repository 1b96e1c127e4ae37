// SPDX-License-Identifier: Apache-2.0

package descent

import "golang.org/x/sys/unix"

// Down opens the directory that elements lead to from base, for reading, as [Open] opens each of them. If mkdir is not nil, it is called
// to make what is missing, and the directory that has it then is synced. The error is a bare unix.Errno, or mkdir's, and is about the
// element with the index failed.
func Down(base int, elements []string, mkdir func(dir int, name string) error) (fd, failed int, err error) {
	fd, err = unix.Openat(base, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, 0, err
	}
	for i, name := range elements {
		next, err := Open(fd, name, unix.O_RDONLY|unix.O_DIRECTORY)
		if err == unix.ENOENT && mkdir != nil {
			next, err = makeAndOpen(fd, name, mkdir)
		}
		_ = unix.Close(fd)
		if err != nil {
			return -1, i, err
		}
		fd = next
	}
	return fd, len(elements), nil
}

func makeAndOpen(dir int, name string, mkdir func(int, string) error) (int, error) {
	if err := mkdir(dir, name); err != nil && err != unix.EEXIST {
		return -1, err
	}
	if err := unix.Fsync(dir); err != nil {
		return -1, err
	}
	return Open(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
}
