// SPDX-License-Identifier: Apache-2.0

package atomicwriter

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/internal/syscallfault"
)

func TestAWriteThatIsDisturbedAnywhereLeavesTheOldFilesOrTheNewOnes(t *testing.T) {
	supervisor := syscallfault.New(t)
	for name, verdict := range map[string]syscallfault.Verdict{"killed": syscallfault.Kill(), "out of space": syscallfault.Fail(unix.ENOSPC)} {
		for _, first := range []bool{true, false} {
			for at := 0; ; at++ {
				dir := t.TempDir()
				if !first {
					write(t, dir, before)
				}
				cmd := programFor(t, dir)
				calls, err := supervisor.Run(cmd, func(n int, _ syscallfault.Call) syscallfault.Verdict {
					if n == at {
						return verdict
					}
					return syscallfault.Continue()
				})
				require.NoError(t, err)
				if len(calls) <= at {
					require.Zero(t, cmd.ProcessState.ExitCode())
					require.Greater(t, at, 20)
					break
				}
				switch isThere := Holds(dir, after, plain); {
				case isThere:
				case first:
					_, err := Current(dir)
					require.ErrorIs(t, err, os.ErrNotExist, "%s at %d: %s", name, at, calls[at])
				default:
					require.True(t, Holds(dir, before, plain), "%s at %d: %s", name, at, calls[at])
					for path := range before {
						require.FileExists(t, filepath.Join(dir, path), "%s at %d: %s", name, at, calls[at])
					}
				}
				if verdict != syscallfault.Kill() && !Holds(dir, after, plain) {
					requireNothingNew(t, dir, first)
				}
				write(t, dir, after)
				requireHolds(t, dir, after, "%s at %d: %s", name, at, calls[at])
			}
		}
	}
}

// requireNothingNew fails if a write that failed has left something, but for what it could not remove.
func requireNothingNew(t *testing.T, dir string, first bool) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "..") {
			continue
		}
		require.False(t, first, entry.Name())
		require.FileExists(t, filepath.Join(dir, resolveFirst(entry.Name())))
	}
}

// resolveFirst returns the path of a file of before that a name leads to.
func resolveFirst(name string) string {
	for path := range before {
		if first, _, _ := strings.Cut(path, "/"); first == name {
			return path
		}
	}
	return name
}

func TestAFullFileSystemLeavesTheOldFiles(t *testing.T) {
	mountns.RequirePrivate(t)
	dir := t.TempDir()
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	write(t, dir, before)
	err := Write(t.Context(), dir, Payload{"big": {Data: strings.Repeat("x", 1<<20), Mode: 0o644}}, nil, plain)
	require.ErrorIs(t, err, syscall.ENOSPC)
	assert.ErrorContains(t, err, dir)
	requireHolds(t, dir, before)
}

func TestWhatIsMountedInOldFilesIsNotTouched(t *testing.T) {
	mountns.RequirePrivate(t)
	dir := t.TempDir()
	write(t, dir, before)
	current, err := Current(dir)
	require.NoError(t, err)
	mounted := filepath.Join(dir, current, "dir")
	require.NoError(t, unix.Mount("tmpfs", mounted, "tmpfs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(mounted, unix.MNT_DETACH) })
	require.NoError(t, os.WriteFile(filepath.Join(mounted, "precious"), nil, 0o600))
	err = Write(t.Context(), dir, after, nil, plain)
	require.ErrorIs(t, err, ErrUntidy)
	require.True(t, Holds(dir, after, plain))
	assert.FileExists(t, filepath.Join(mounted, "precious"))
	require.Error(t, Write(t.Context(), dir, before, nil, plain))
	require.NoError(t, unix.Unmount(mounted, 0))
	write(t, dir, after)
	requireHolds(t, dir, after)
}

func TestOwnersAreSetBeforeAFileCanBeSeen(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("not root: files cannot be given to others")
	}
	dir := t.TempDir()
	user, group := int64(1000), int64(2000)
	payload := Payload{"a": {Data: "x", Mode: 0o440, User: &user, Group: &group}, "dir/b": {Mode: 0o600, Group: &group}}
	owned := Directories{Mode: 0o755 | os.ModeSetgid, Group: &group}
	require.NoError(t, Write(t.Context(), dir, payload, nil, owned))
	require.True(t, Holds(dir, payload, owned))
	other := int64(2001)
	assert.False(t, Holds(dir, Payload{"a": payload["a"], "dir/b": {Mode: 0o600, Group: &other}}, owned))
	assert.False(t, Holds(dir, payload, Directories{Mode: owned.Mode, Group: &other}))
	err := errors.Join(os.Chown(filepath.Join(dir, "a"), 0, 0))
	require.NoError(t, err)
	assert.False(t, Holds(dir, payload, owned))
}
