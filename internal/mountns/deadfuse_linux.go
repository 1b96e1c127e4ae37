// SPDX-License-Identifier: Apache-2.0

package mountns

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// DeadFUSE mounts on dir, an existing directory, a file system whose server never answers, as a network file system does
// when its server is gone: a call that asks the server, such as stat, hangs until the caller is killed. kill ends the
// server for good: what hangs is freed with an error, and from then on such calls give ENOTCONN.
//
// The cleanup of the test kills the server and takes the mount away if the test did not; it waits for nobody. The test has
// to be in a private mount namespace (see [RequirePrivate]).
func DeadFUSE(t testing.TB, dir string) (kill func()) {
	t.Helper()
	RequirePrivate(t)
	// No os.File: it would be closed by the garbage collector, and the server would die early.
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		t.Skip("needs FUSE in the kernel: ", err)
	}
	if err != nil {
		t.Fatal(&os.PathError{Op: "open", Path: "/dev/fuse", Err: err})
	}
	kill = sync.OnceFunc(func() {
		// Releasing the last descriptor aborts the connection.
		if err := unix.Close(fd); err != nil {
			t.Error(os.NewSyscallError("close /dev/fuse", err))
		}
	})
	t.Cleanup(kill)

	// The kernel asks for these four, see fuse(4).
	data := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)
	if err := unix.Mount("dead", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, data); err != nil {
		t.Fatal(&os.PathError{Op: "mount fuse on", Path: dir, Err: err})
	}
	var mounted unix.Statx_t
	statMount := func(stat *unix.Statx_t) error {
		const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
		return unix.Statx(unix.AT_FDCWD, dir, flags, unix.STATX_MNT_ID, stat)
	}
	if err := statMount(&mounted); err != nil {
		t.Fatal(&os.PathError{Op: "statx", Path: dir, Err: err})
	}
	t.Cleanup(func() {
		kill()
		var now unix.Statx_t
		if statMount(&now) != nil || now.Mnt_id != mounted.Mnt_id {
			return // unmounted, and perhaps replaced or removed, by the test
		}
		if err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			t.Error(&os.PathError{Op: "unmount", Path: dir, Err: err})
		}
	})
	return kill
}
