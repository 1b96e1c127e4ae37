// SPDX-License-Identifier: Apache-2.0

package syscallfault

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watch answers the notifications of one program.
type watch struct {
	changes  map[uint32]change
	decide   func(int, Call) Verdict
	listener int // of the filter
	stop     int // an eventfd
	group    int // the process group of the program

	calls []Call
}

// notification is struct seccomp_notif, see seccomp_unotify(2).
type notification struct {
	id     uint64
	thread uint32
	_      uint32
	number int32
	_      uint32 // the architecture, which the filter has checked
	_      uint64 // the instruction
	args   [6]uint64
}

// answer is struct seccomp_notif_resp.
type answer struct {
	id    uint64
	value int64
	err   int32
	flags uint32
}

// run answers until it is told to stop, or nobody is left who could ask. After a kill nothing more happens: what other
// threads ask is not answered.
func (w *watch) run() error {
	for {
		poll := []unix.PollFd{{Fd: int32(w.listener), Events: unix.POLLIN}, {Fd: int32(w.stop), Events: unix.POLLIN}}
		_, err := unix.Poll(poll, -1)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return os.NewSyscallError("poll", err)
		case poll[0].Revents&unix.POLLIN != 0:
			if killed, err := w.answerOne(); killed || err != nil {
				return err
			}
		case poll[1].Revents != 0, poll[0].Revents != 0:
			return nil
		}
	}
}

func (w *watch) answerOne() (killed bool, err error) {
	var n notification
	err = ioctl(w.listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n))
	if err == unix.EINTR || err == unix.ENOENT { // the thread was killed, or a signal made it start again
		return false, nil
	}
	if err != nil {
		return false, os.NewSyscallError("ioctl SECCOMP_IOCTL_NOTIF_RECV", err)
	}
	verdict := w.verdict(int(n.thread), uint32(n.number), n.args)
	if verdict.kill {
		_ = unix.Kill(-w.group, unix.SIGKILL) // it fails only if somebody else was faster
		return true, nil
	}
	a := answer{id: n.id, err: -int32(verdict.errno)}
	if verdict.errno == 0 {
		a.flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
	}
	for {
		err = ioctl(w.listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a))
		if err != unix.EINTR {
			break
		}
	}
	if err == unix.ENOENT { // killed meanwhile
		return false, nil
	}
	return false, os.NewSyscallError("ioctl SECCOMP_IOCTL_NOTIF_SEND", err)
}

func (w *watch) verdict(thread int, number uint32, args [6]uint64) Verdict {
	c := w.changes[number]
	if !c.counts(thread, args) {
		return Continue()
	}
	w.calls = append(w.calls, c.describe(thread, args))
	if w.decide == nil {
		return Continue()
	}
	last := len(w.calls) - 1
	return w.decide(last, w.calls[last])
}

func ioctl(descriptor int, request uint, argument unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(descriptor), uintptr(request), uintptr(argument))
	if errno != 0 {
		return errno
	}
	return nil
}
