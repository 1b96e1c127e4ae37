// SPDX-License-Identifier: Apache-2.0

package descent

import "golang.org/x/sys/unix"

// Open opens one name in the directory dir, close-on-exec, with the given flags of open(2); dir may be an O_PATH
// descriptor. It follows nothing and crosses nothing. The error is a bare unix.Errno, among them:
//
//   - EXDEV: something is mounted on it, be it a bind mount from the same file system. What is mounted there is not
//     touched, so that a server that does not answer does no harm.
//   - ELOOP or ENOTDIR: it is a symbolic link, or no directory although O_DIRECTORY was given.
//   - ENOSYS: Linux is older than 5.6, or a seccomp filter hides openat2(2).
//
// The name must be a single element, neither "." nor "..".
func Open(dir int, name string, flags uint64) (int, error) {
	return openat2(dir, name, flags|unix.O_NOFOLLOW,
		unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS|unix.RESOLVE_NO_XDEV)
}

func openat2(dir int, name string, flags, resolve uint64) (fd int, err error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: resolve}
	err = retry(func() error {
		fd, err = unix.Openat2(dir, name, &how)
		return err
	})
	if err != nil {
		return -1, err
	}
	return fd, nil
}

// retry repeats a system call that a signal interrupted; the Go runtime sends itself signals to preempt goroutines.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
