// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncFileSystem writes all of the file system that the file is on to the disk.
func syncFileSystem(f *os.File) error { return os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd()))) }
