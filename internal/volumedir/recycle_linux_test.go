// SPDX-License-Identifier: Apache-2.0

package volumedir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
)

func recyclable() *v1.PersistentVolume {
	pv := &v1.PersistentVolume{}
	pv.Name = "pv-1"
	pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRecycle
	return pv
}

func TestADirectoryThatCannotBeMeantIsNotRecycled(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "a", "root")
	kept := filepath.Join(root, "kept")
	require.NoError(t, os.MkdirAll(kept, 0o755))
	require.NoError(t, os.Symlink(dir, filepath.Join(dir, "link")))
	for _, path := range []string{dir, filepath.Join(dir, "a"), root, filepath.Join(dir, "link"), filepath.Join(dir, "a", "..", "a")} {
		require.ErrorIs(t, Recycle(t.Context(), root, recyclable(), path), volume.ErrInvalid, path)
	}
	retained := recyclable()
	retained.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRetain
	other := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(other, "kept"), 0o755))
	err := Recycle(t.Context(), root, retained, other)
	require.ErrorIs(t, err, volume.ErrInvalid)
	assert.ErrorContains(t, err, `has the reclaim policy "Retain", not Recycle`)
	assert.DirExists(t, kept)
	assert.DirExists(t, filepath.Join(other, "kept"))
}

func TestWhatIsMountedInAVolumeIsNotRecycled(t *testing.T) {
	mountns.RequirePrivate(t)
	dir := t.TempDir()
	mount := func(path string) {
		require.NoError(t, os.MkdirAll(path, 0o755))
		require.NoError(t, unix.Mount("tmpfs", path, "tmpfs", 0, ""))
		t.Cleanup(func() { assert.NoError(t, unix.Unmount(path, 0)) })
	}
	volumeDir := filepath.Join(dir, "disk")
	mount(volumeDir) // as a disk is, which is emptied
	inside := filepath.Join(volumeDir, "sub", "mounted")
	mount(inside)
	for _, path := range []string{filepath.Join(volumeDir, "file"), filepath.Join(inside, "kept")} {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	err := Recycle(t.Context(), t.TempDir(), recyclable(), volumeDir)
	require.ErrorIs(t, err, volume.ErrInUse)
	assert.ErrorContains(t, err, inside)
	assert.NoFileExists(t, filepath.Join(volumeDir, "file"))
	assert.FileExists(t, filepath.Join(inside, "kept"))
}
