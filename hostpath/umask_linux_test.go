// SPDX-License-Identifier: Apache-2.0

package hostpath_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/hostpath"
)

// TestModesAreExactWhereUnshareIsForbidden runs in a process of its own, with a seccomp filter like those of container
// runtimes.
func TestModesAreExactWhereUnshareIsForbidden(t *testing.T) {
	const child = "HOSTPATH_TEST_NO_UNSHARE"
	if os.Getenv(child) == "" {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.v", "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), child+"=1", "TMPDIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: "+t.Name(), "it must have run")
		return
	}
	forbid(t, unix.SYS_UNSHARE)
	bothWays(t, func(t *testing.T, plugin *hostpath.Plugin, dir string) {
		setUmask(t, 0o077)
		path := filepath.Join(dir, "a", "b")
		require.NoError(t, setUp(t, plugin, path, v1.HostPathDirectoryOrCreate))
		wantMode(t, fs.ModeDir|0o755, path)
		wantMode(t, fs.ModeDir|0o755, filepath.Dir(path))
		file := filepath.Join(dir, "file")
		require.NoError(t, setUp(t, plugin, file, v1.HostPathFileOrCreate))
		wantMode(t, 0o644, file)
	})
}

// forbid has a system call give EPERM in all threads, for as long as the process lives.
func forbid(t *testing.T, number uint32) {
	t.Helper()
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number, see struct seccomp_data
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: number, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	// The first call counts for one thread, who needs it for the second.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	require.NoError(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	require.Zero(t, errno)
	require.ErrorIs(t, unix.Unshare(unix.CLONE_FS), unix.EPERM)
}
