// SPDX-License-Identifier: Apache-2.0

package removal_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/removal"
	"golang.org/x/sys/unix"
)

func TestAnOwnerRemovesDirectoriesWithoutPermissions(t *testing.T) {
	asOrdinaryUser(t, func(t *testing.T) {
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
	asOrdinaryUser(t, func(t *testing.T) {
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
	asOrdinaryUser(t, func(t *testing.T) {
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
		asOrdinaryUser(t, nil, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "volume", "theirs", "file"))
			write(t, filepath.Join(dir, "volume", "closed", "file"))
			require.NoError(t, os.Chmod(filepath.Join(dir, "volume", "closed"), 0))
			write(t, filepath.Join(dir, "volume", "ours", "file"))
			require.NoError(t, os.Chown(filepath.Join(dir, "volume"), ordinary, ordinary))
			require.NoError(t, os.Chown(filepath.Join(dir, "volume", "ours"), ordinary, ordinary))
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

// ordinary is the user and group that root becomes: nobody.
const ordinary = 65534

// asOrdinaryUser runs the test without the rights of root. Root runs the test binary once more for that, as nobody,
// with a TMPDIR that belongs to nobody and that prepare may put things into.
func asOrdinaryUser(t *testing.T, test func(*testing.T), prepare ...func(t *testing.T, dir string)) {
	t.Helper()
	if os.Geteuid() != 0 {
		test(t)
		return
	}
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), os.TempDir()} {
		require.NoError(t, os.Chmod(d, 0o711)) // to get there
	}
	for _, p := range prepare {
		p(t, dir)
	}
	require.NoError(t, os.Chown(dir, ordinary, ordinary))
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.v", "-test.run=^"+t.Name()+"$")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name(), "it must have run")
}
