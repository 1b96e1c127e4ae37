// SPDX-License-Identifier: Apache-2.0

package removal_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/internal/removal"
)

func TestAnOwnerRemovesDirectoriesWithoutPermissions(t *testing.T) {
	mountns.AsOrdinaryUser(t, func(t *testing.T) {
		for _, mode := range []os.FileMode{0, 0o100, 0o200, 0o300, 0o400, 0o500, 0o600, 0o077} {
			path := filepath.Join(t.TempDir(), "volume")
			write(t, filepath.Join(path, "a", "b", "file"))
			write(t, filepath.Join(path, "a", "c", "d", "file"))
			mkdir(t, filepath.Join(path, "a", "empty"))
			for _, dir := range []string{"a/empty", "a/b", "a/c/d", "a/c", "a", "."} {
				require.NoError(t, os.Chmod(filepath.Join(path, dir), mode))
			}
			assert.NoError(t, removal.All(t.Context(), path), mode)
			assert.NoDirExists(t, path, mode)
		}
	})
}

func TestTheDirectoryThatHoldsThePathKeepsItsPermissions(t *testing.T) {
	mountns.AsOrdinaryUser(t, func(t *testing.T) {
		parent := filepath.Join(t.TempDir(), "parent")
		write(t, filepath.Join(parent, "volume", "file"))
		require.NoError(t, os.Chmod(parent, 0o500))
		defer os.Chmod(parent, 0o700)
		err := removal.All(t.Context(), filepath.Join(parent, "volume"))
		assert.ErrorIs(t, err, unix.EACCES)
		assert.ErrorContains(t, err, filepath.Join(parent, "volume"))
		assert.Empty(t, names(t, filepath.Join(parent, "volume")), "what could be removed is gone")
		info, err := os.Stat(parent)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o500), info.Mode().Perm())
	})
}

func TestContentsKeepsThePermissionsOfItsDirectory(t *testing.T) {
	mountns.AsOrdinaryUser(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "volume")
		write(t, filepath.Join(path, "file"))
		for _, mode := range []os.FileMode{0, 0o500} {
			require.NoError(t, os.Chmod(path, mode))
			assert.ErrorIs(t, removal.Contents(t.Context(), path), unix.EACCES)
			info, err := os.Stat(path)
			require.NoError(t, err)
			assert.Equal(t, mode, info.Mode().Perm())
		}
		require.NoError(t, os.Chmod(path, 0o700))
		assert.Equal(t, []string{"file"}, names(t, path))
	})
}

func TestWhatBelongsToOthersIsNamedAndTheRestGoes(t *testing.T) {
	if os.Geteuid() == 0 {
		mountns.AsOrdinaryUser(t, nil, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "volume", "theirs", "file"))
			write(t, filepath.Join(dir, "volume", "closed", "file"))
			require.NoError(t, os.Chmod(filepath.Join(dir, "volume", "closed"), 0))
			write(t, filepath.Join(dir, "volume", "ours", "file"))
			require.NoError(t, os.Chown(filepath.Join(dir, "volume"), mountns.OrdinaryUser, mountns.OrdinaryUser))
			require.NoError(t, os.Chown(filepath.Join(dir, "volume", "ours"), mountns.OrdinaryUser, mountns.OrdinaryUser))
		})
		return
	}
	path := filepath.Join(os.TempDir(), "volume")
	if _, err := os.Stat(path); err != nil {
		t.Skip("needs root, who makes files of another user")
	}
	err := removal.All(t.Context(), path)
	require.ErrorIs(t, err, unix.EACCES)
	assert.ErrorContains(t, err, filepath.Join(path, "theirs", "file"))
	assert.ErrorContains(t, err, filepath.Join(path, "closed"))
	assert.Equal(t, []string{"closed", "theirs"}, names(t, path))
}
