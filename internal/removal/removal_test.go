// SPDX-License-Identifier: Apache-2.0

package removal_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/removal"
)

func TestAllRemoves(t *testing.T) {
	for name, make := range map[string]func(t *testing.T, path string){
		"nothing where there is nothing": func(*testing.T, string) {},
		"an empty directory":             func(t *testing.T, path string) { mkdir(t, path) },
		"a file":                         func(t *testing.T, path string) { write(t, path) },
		"a directory with a file":        func(t *testing.T, path string) { write(t, filepath.Join(path, "file")) },
		"a tree": func(t *testing.T, path string) {
			for i := range 5 {
				for j := range 5 {
					write(t, filepath.Join(path, fmt.Sprint(i), "of", fmt.Sprint(j), "file"))
				}
				mkdir(t, filepath.Join(path, fmt.Sprint(i), "empty"))
			}
		},
		"a directory with more names than one read returns": func(t *testing.T, path string) {
			mkdir(t, path)
			for i := range 1000 {
				write(t, filepath.Join(path, fmt.Sprintf("a file among many %d", i)))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "volume")
			make(t, path)
			require.NoError(t, removal.All(t.Context(), path))
			assert.NoFileExists(t, path)
			assert.NoDirExists(t, path)
			assert.NoError(t, removal.All(t.Context(), path), "again")
		})
	}
}

func TestWhatHasNoParentIsAbsentToo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "absent", "volume")
	assert.NoError(t, removal.All(t.Context(), path))
	assert.NoError(t, removal.Contents(t.Context(), path))
}

func TestAllRemovesALinkAndNotItsTarget(t *testing.T) {
	for name, target := range map[string]string{
		"to a directory": "kept",
		"to a file":      "kept/file",
		"to nothing":     "absent",
		"to itself":      "link",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "kept", "file"))
			link := filepath.Join(dir, "link")
			require.NoError(t, os.Symlink(target, link))
			require.NoError(t, removal.All(t.Context(), link))
			_, err := os.Lstat(link)
			assert.ErrorIs(t, err, os.ErrNotExist)
			assert.FileExists(t, filepath.Join(dir, "kept", "file"))
		})
	}
}

func TestAllRemovesLinksInsideAndNotTheirTargets(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "kept", "file"))
	path := filepath.Join(dir, "volume")
	mkdir(t, filepath.Join(path, "sub"))
	for _, target := range []string{"../kept", "../../kept", filepath.Join(dir, "kept"), "../kept/file", ".", ".."} {
		for _, in := range []string{path, filepath.Join(path, "sub")} {
			f, err := os.CreateTemp(in, "link")
			require.NoError(t, err)
			require.NoError(t, f.Close())
			require.NoError(t, os.Remove(f.Name()))
			require.NoError(t, os.Symlink(target, f.Name()))
		}
	}
	require.NoError(t, removal.All(t.Context(), path))
	assert.NoDirExists(t, path)
	assert.FileExists(t, filepath.Join(dir, "kept", "file"))
}

func TestTheDirectoriesThatLeadToThePathMayBeLinks(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "real", "volume", "sub", "file"))
	write(t, filepath.Join(dir, "real", "other"))
	require.NoError(t, os.Symlink("real", filepath.Join(dir, "root")))
	require.NoError(t, removal.Contents(t.Context(), filepath.Join(dir, "root", "volume")))
	assert.Empty(t, names(t, filepath.Join(dir, "real", "volume")))
	write(t, filepath.Join(dir, "real", "volume", "sub", "file"))
	require.NoError(t, removal.All(t.Context(), filepath.Join(dir, "root", "volume")))
	assert.Equal(t, []string{"other"}, names(t, filepath.Join(dir, "real")))
}

func TestAnEndedContextRemovesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := filepath.Join(t.TempDir(), "volume")
	mkdir(t, path)
	assert.ErrorIs(t, removal.All(ctx, path), context.Canceled)
	assert.DirExists(t, path)
	write(t, filepath.Join(path, "file"))
	assert.ErrorIs(t, removal.Contents(ctx, path), context.Canceled)
	assert.FileExists(t, filepath.Join(path, "file"))
}

func TestContentsKeepsTheDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "volume")
	require.NoError(t, removal.Contents(t.Context(), path), "absent")
	assert.NoDirExists(t, path)
	mkdir(t, path)
	before, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, removal.Contents(t.Context(), path), "empty")
	write(t, filepath.Join(path, "file"))
	write(t, filepath.Join(path, "sub", "file"))
	require.NoError(t, removal.Contents(t.Context(), path))
	assert.Empty(t, names(t, path))
	after, err := os.Stat(path)
	require.NoError(t, err)
	assert.True(t, os.SameFile(before, after))
	assert.Equal(t, before.Mode(), after.Mode())
}

func TestContentsRefusesWhatIsNoDirectory(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "kept", "file"))
	require.NoError(t, os.Symlink("kept", filepath.Join(dir, "link")))
	for _, name := range []string{"link", "kept/file"} {
		path := filepath.Join(dir, name)
		assert.ErrorContains(t, removal.Contents(t.Context(), path), path)
		assert.FileExists(t, filepath.Join(dir, "kept", "file"))
	}
}

func mkdir(t testing.TB, path string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(path, 0o777))
}

// write makes a file, and the directories that lead to it.
func write(t testing.TB, path string) {
	t.Helper()
	mkdir(t, filepath.Dir(path))
	require.NoError(t, os.WriteFile(path, []byte("content"), 0o666))
}

// names returns the names in a directory, sorted.
func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
