// SPDX-License-Identifier: Apache-2.0

package mounttable

import (
	"os"

	"golang.org/x/sys/unix"
)

// changes is an open /proc/self/mountinfo, on which poll reports that there were changes, see proc_pid_mountinfo(5). They are
// reported once for each time that it was opened. It is a descriptor and no os.File, as the runtime would poll that on its
// own, and so swallow the report.
type changes int

const mountInfo = "/proc/self/mountinfo"

func openChanges() (changes, error) {
	for {
		fd, err := unix.Open(mountInfo, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		switch {
		case err == nil:
			return changes(fd), nil
		case err != unix.EINTR:
			return -1, &os.PathError{Op: "open", Path: mountInfo, Err: err}
		}
	}
}

func (c changes) close() error { return os.NewSyscallError("close", unix.Close(int(c))) }

// since reports whether there was a change since it was asked last, or opened.
func (c changes) since() (bool, error) {
	fds := []unix.PollFd{c.pollFd()}
	err := poll(fds, 0)
	return fds[0].Revents != 0, err
}

// pollFd asks poll for a change.
func (c changes) pollFd() unix.PollFd { return unix.PollFd{Fd: int32(c), Events: unix.POLLPRI} }

func poll(fds []unix.PollFd, timeout int) error {
	for {
		_, err := unix.Poll(fds, timeout)
		switch {
		case err == nil:
			return nil
		case err != unix.EINTR:
			return &os.PathError{Op: "poll", Path: mountInfo, Err: err}
		}
	}
}
