// SPDX-License-Identifier: Apache-2.0

package volumedir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"

	"github.com/volumekit/volumekit/internal/mounter"
	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/internal/removal"
	"github.com/volumekit/volumekit/volume"
)

func TestATmpfsIsToldFromOtherMounts(t *testing.T) {
	mountns.RequirePrivate(t)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0))
	var tmpfs Tmpfs
	require.NoError(t, tmpfs.Mount(mounter.New(), dir, []string{"mode=0755"}))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	_, is, err := IsTmpfs(t.Context(), mounter.New(), dir)
	require.NoError(t, err)
	assert.True(t, is)
	assert.True(t, HidesMode(dir, 0))
	assert.False(t, HidesMode(dir, 0o755), "that is the mode of what is mounted")

	other := t.TempDir()
	require.NoError(t, unix.Mount("some-ramfs", other, "ramfs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(other, unix.MNT_DETACH) })
	what, is, err := IsTmpfs(t.Context(), mounter.New(), other)
	require.NoError(t, err)
	assert.False(t, is)
	assert.Equal(t, "some-ramfs (ramfs)", what)
}

func TestAMounterThatKnowsOfMountsWhichTheKernelHasNotIsBelieved(t *testing.T) {
	dir := t.TempDir()
	fake := mount.NewFakeMounter([]mount.MountPoint{{Device: "tmpfs", Path: Resolve(dir), Type: "tmpfs"}})
	_, is, err := IsTmpfs(t.Context(), fake, dir)
	require.NoError(t, err)
	assert.True(t, is)
}

func TestWhatKeepsAVolumeFromBeingUnmountedIsNamed(t *testing.T) {
	mountns.RequirePrivate(t)
	dir := t.TempDir()
	inside := filepath.Join(dir, "inside")
	busy := fmt.Errorf("unmount: %w", syscall.EBUSY)
	require.ErrorContains(t, WhyInUse(mounter.New(), dir, busy), "a process has a file open in it")
	require.NoError(t, os.Mkdir(inside, 0o755))
	require.NoError(t, unix.Mount("tmpfs", inside, "tmpfs", 0, ""))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(inside, 0)) })
	err := WhyInUse(mounter.New(), dir, busy)
	require.ErrorIs(t, err, volume.ErrInUse)
	assert.ErrorContains(t, err, inside)

	removed := removal.All(t.Context(), dir)
	require.ErrorIs(t, InUse(removed), volume.ErrInUse)
	assert.True(t, IsMountedOn(removed, inside))
	assert.False(t, IsMountedOn(removed, dir))
}

func TestParentsThatOthersRemoveAreMadeAgain(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "a", "b", "c")
	tries := 0
	require.NoError(t, WithParents(path, func() error {
		tries++
		if tries == 2 { // as by somebody who found it empty
			require.NoError(t, os.RemoveAll(filepath.Join(root, "a")))
		}
		return os.Mkdir(path, 0o700)
	}))
	assert.Equal(t, 3, tries)
	assert.DirExists(t, path)
	require.ErrorIs(t, WithParents(filepath.Join(root, "x", "y"), func() error { return os.ErrPermission }), os.ErrPermission)
}

func TestWhatHasRunOutIsExhausted(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.ENOMEM} {
		require.ErrorIs(t, Exhausted(fmt.Errorf("write: %w", errno)), volume.ErrExhausted)
	}
	other := errors.New("other")
	assert.Equal(t, other, Exhausted(other))
	assert.NoError(t, Exhausted(nil))
}
