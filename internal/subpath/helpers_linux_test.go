// SPDX-License-Identifier: Apache-2.0

package subpath_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mountns"
)

// begin makes a volume, and returns it with the directory of its pod's subPaths, which does not exist yet.
func begin(t *testing.T) (volume, subpaths string) {
	t.Helper()
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	volume = mkdir(t, filepath.Join(t.TempDir(), "volume"))
	return volume, filepath.Join(t.TempDir(), "volume-subpaths")
}

func mkdir(t *testing.T, path string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(path, 0o755))
	return path
}

func write(t *testing.T, path, content string) string {
	t.Helper()
	mkdir(t, filepath.Dir(path))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

func link(t *testing.T, target, path string) {
	t.Helper()
	mkdir(t, filepath.Dir(path))
	require.NoError(t, os.Symlink(target, path))
}

// mount mounts until the end of the test, or until something else unmounts it.
func mount(t *testing.T, source, target, fstype string, flags uintptr) {
	t.Helper()
	mkdir(t, filepath.Dir(target))
	require.NoError(t, unix.Mount(source, target, fstype, flags, ""))
	mounted := mountID(t, target)
	t.Cleanup(func() {
		var stat unix.Statx_t
		if statMount(target, &stat) == nil && stat.Mnt_id == mounted {
			require.NoError(t, unix.Unmount(target, unix.MNT_DETACH))
		}
	})
}

// mountID is of the uppermost mount at path or above it, and is never given to another one.
func mountID(t *testing.T, path string) uint64 {
	t.Helper()
	var stat unix.Statx_t
	require.NoError(t, statMount(path, &stat))
	return stat.Mnt_id
}

func mounted(t *testing.T, path string) bool {
	t.Helper()
	var stat unix.Statx_t
	require.NoError(t, statMount(path, &stat))
	return stat.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

func statMount(path string, stat *unix.Statx_t) error {
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	return unix.Statx(unix.AT_FDCWD, path, flags, unix.STATX_MNT_ID_UNIQUE, stat)
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

func sameFile(t *testing.T, a, b string) bool {
	t.Helper()
	statA, err := os.Stat(a)
	require.NoError(t, err)
	statB, err := os.Stat(b)
	require.NoError(t, err)
	return os.SameFile(statA, statB)
}
