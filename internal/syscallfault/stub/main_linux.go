// SPDX-License-Identifier: Apache-2.0

// Command stub becomes another program, under a seccomp filter that it gets, and whose listener it returns, through a
// socket. Go cannot run anything between fork and exec, so a program that is to be supervised starts as this one.
//
//	stub SOCKET PATH ARG0 [ARG]...
//
// SOCKET is the number of an inherited descriptor, a socket that keeps messages apart. It receives the filter, an array of
// struct sock_filter, and sends one byte with the listener, or the reason why there is none.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	err := become(os.Args[1:])
	fmt.Fprintln(os.Stderr, "syscallfault:", err)
	os.Exit(127)
}

// become returns only with an error.
func become(args []string) error {
	socket, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	unix.CloseOnExec(socket)
	// The filter is that of the thread, and execve leaves only this one.
	runtime.LockOSThread()
	message := []byte{0}
	var rights []byte
	listener, err := filter(socket)
	if err != nil {
		message = []byte(err.Error())
	} else {
		rights = unix.UnixRights(listener)
	}
	if err := unix.Sendmsg(socket, message, rights, nil, 0); err != nil {
		return os.NewSyscallError("sendmsg", err)
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("execute %s: %w", args[1], unix.Exec(args[1], args[2:], os.Environ()))
}

// filter installs the filter that comes through the socket, and returns its listener.
func filter(socket int) (int, error) {
	instructions := make([]unix.SockFilter, unix.BPF_MAXINSNS)
	const size = int(unsafe.Sizeof(unix.SockFilter{}))
	n, err := unix.Read(socket, unsafe.Slice((*byte)(unsafe.Pointer(&instructions[0])), len(instructions)*size))
	if err != nil {
		return -1, os.NewSyscallError("read", err)
	}
	program := unix.SockFprog{Len: uint16(n / size), Filter: &instructions[0]}
	// Once its notification has been received a call waits for the answer, whatever signals come: the Go runtime sends
	// itself signals all the time, and a call that starts again would be counted twice.
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	listener, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
	if errno == unix.EACCES { // without CAP_SYS_ADMIN there must be nothing to gain from programs with more rights
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return -1, os.NewSyscallError("prctl", err)
		}
		listener, _, errno = unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
	}
	runtime.KeepAlive(instructions)
	if errno != 0 {
		return -1, os.NewSyscallError("seccomp", errno)
	}
	return int(listener), nil
}
