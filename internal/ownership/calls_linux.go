// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const statxMask = unix.STATX_TYPE | unix.STATX_MODE | unix.STATX_GID

func statDescriptor(fd int, st *unix.Statx_t) error {
	return retry(func() error {
		return unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, statxMask, st)
	})
}

func chgrpDescriptor(fd int, group uint32) error {
	const owner = -1 // as it is
	return retry(func() error { return unix.Fchownat(fd, "", owner, int(group), unix.AT_EMPTY_PATH) })
}

// chmodDescriptor returns the call that failed. What the descriptor is of is no symbolic link.
func chmodDescriptor(fd int, mode uint32) (call string, err error) {
	// EOPNOTSUPP stands for ENOSYS: Linux is older than 6.6, or a seccomp filter hides the call.
	err = retry(func() error { return unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH) })
	if err != unix.EOPNOTSUPP {
		return "fchmodat2", err
	}
	return "fchmodat", chmodThroughProc(fd, mode)
}

// chmodThroughProc is for older kernels, whose fchmod refuses O_PATH. The link leads to the very file of the descriptor.
func chmodThroughProc(fd int, mode uint32) error {
	return retry(func() error {
		return unix.Fchmodat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), mode, 0)
	})
}

// retry repeats a system call that a signal interrupted; the Go runtime sends itself signals to preempt goroutines.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
