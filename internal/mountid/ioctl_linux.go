// SPDX-License-Identifier: Apache-2.0

package mountid

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ioctlUint64 has the kernel write a number.
func ioctlUint64(file *os.File, request uintptr, value *uint64) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, file.Fd(), request, uintptr(unsafe.Pointer(value)))
	if errno != 0 {
		return os.NewSyscallError("ioctl", errno)
	}
	return nil
}
