// SPDX-License-Identifier: Apache-2.0

package mounter

import (
	"os"
	"runtime"
	"testing"
	"unsafe"

	"github.com/moby/sys/mountinfo"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mountns"
)

func TestMain(m *testing.M) { os.Exit(mountns.Main(m)) }

// begin is how each test that mounts begins. The mounts that it leaves fail it.
func begin(t testing.TB) *Mounter {
	t.Helper()
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	return New()
}

// mountTmpfs mounts an empty tmpfs on a new directory until the test ends.
func mountTmpfs(t testing.TB, m *Mounter, options ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, m.Mount("tmpfs", dir, "tmpfs", options))
	unmountAtEnd(t, m, dir)
	return dir
}

func unmountAtEnd(t testing.TB, m *Mounter, dir string) {
	t.Helper()
	t.Cleanup(func() { require.NoError(t, m.Unmount(dir)) })
}

// infoOf returns the line of the mount table about the uppermost mount on dir.
func infoOf(t testing.TB, dir string) *mountinfo.Info {
	t.Helper()
	infos, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(dir))
	require.NoError(t, err)
	require.NotEmpty(t, infos, "nothing is mounted on %s", dir)
	return infos[len(infos)-1]
}

// onThread calls f in a thread of its own, to which restrict has done what cannot be taken back.
func onThread(t *testing.T, restrict func() error, f func() error) error {
	t.Helper()
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		if err := restrict(); err != nil {
			t.Error("restrict the thread: ", err)
		}
		result <- f()
	}()
	return <-result
}

// dropCapability takes a capability away from the thread.
func dropCapability(capability uint) func() error {
	return func() error {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&header, &data[0]); err != nil {
			return err
		}
		data[capability/32].Effective &^= 1 << (capability % 32)
		return unix.Capset(&header, &data[0])
	}
}

// refuse makes the system calls fail with errno, as the seccomp filters of container runtimes do.
func refuse(errno unix.Errno, calls ...uint32) func() error {
	return func() error {
		const number = 0 // its offset in struct seccomp_data
		program := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number}}
		for _, call := range calls {
			program = append(program,
				unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
				unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)})
		}
		program = append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
		filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
		_, _, err := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&filter)))
		if err != 0 {
			return err
		}
		return nil
	}
}
