// SPDX-License-Identifier: Apache-2.0

package subpath

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// mkdirExact makes a directory whose permissions are mode, whatever the umask is. The errors of mkdirat(2) come bare.
//
// To change them afterwards would be a second step, before which a crash leaves what the next call takes for finished, and
// by which a container may have put another directory in its place. So it is made by a thread that has no umask: one that
// shares its file system attributes with no other thread, and ends with the goroutine.
func mkdirExact(dir int, name string, mode uint32) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			done <- fmt.Errorf("have a thread with a umask of its own: unshare: %w", err)
			return
		}
		unix.Umask(0)
		done <- retry(func() error { return unix.Mkdirat(dir, name, mode) })
	}()
	return <-done
}
