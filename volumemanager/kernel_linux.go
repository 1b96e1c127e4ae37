// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"errors"

	"golang.org/x/sys/unix"
)

// kernelHasRecursiveReadOnly reports whether the kernel has mount_setattr (Linux 5.12), which recursive read-only mounts
// are made with. The call cannot succeed, and changes nothing: its size argument is invalid.
func kernelHasRecursiveReadOnly() bool {
	_, _, errno := unix.Syscall6(unix.SYS_MOUNT_SETATTR, ^uintptr(0), 0, 0, 0, 0, 0)
	return !errors.Is(errno, unix.ENOSYS)
}
