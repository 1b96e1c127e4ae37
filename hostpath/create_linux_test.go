// SPDX-License-Identifier: Apache-2.0

package hostpath_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/volume"
)

// bothWays runs a test without an allow-list and with one, since what is created is created differently.
func bothWays(t *testing.T, test func(t *testing.T, plugin *hostpath.Plugin, dir string)) {
	t.Run("every path is allowed", func(t *testing.T) {
		test(t, start(t, hostpath.Options{}), t.TempDir())
	})
	t.Run("with an allow-list", func(t *testing.T) {
		dir := t.TempDir()
		test(t, start(t, hostpath.Options{AllowedPaths: []hostpath.AllowedPath{{Prefix: dir}}}), dir)
	})
}

// setUmask changes the umask of the process until the test ends.
func setUmask(t *testing.T, umask int) {
	t.Helper()
	before := syscall.Umask(umask)
	t.Cleanup(func() {
		assert.Equal(t, umask, syscall.Umask(before), "the umask of the process has changed")
	})
}

func wantMode(t *testing.T, want fs.FileMode, path string) {
	t.Helper()
	info, err := os.Lstat(path)
	require.NoError(t, err)
	assert.Equal(t, want.String(), info.Mode().String(), path)
}

func TestDirectoryOrCreateMakesParentsWithExactModes(t *testing.T) {
	bothWays(t, func(t *testing.T, plugin *hostpath.Plugin, dir string) {
		setUmask(t, 0o077)
		path := filepath.Join(dir, "a", "b", "c")
		require.NoError(t, setUp(t, plugin, path, v1.HostPathDirectoryOrCreate))
		for _, made := range []string{path, filepath.Dir(path), filepath.Join(dir, "a")} {
			wantMode(t, fs.ModeDir|0o755, made)
		}
	})
}

func TestFileOrCreateMakesAnEmptyFileWithTheExactMode(t *testing.T) {
	bothWays(t, func(t *testing.T, plugin *hostpath.Plugin, dir string) {
		setUmask(t, 0o077)
		path := filepath.Join(dir, "file")
		require.NoError(t, setUp(t, plugin, path, v1.HostPathFileOrCreate))
		wantMode(t, 0o644, path)
		require.NoError(t, os.WriteFile(path, []byte("kept"), 0))
		require.NoError(t, setUp(t, plugin, path, v1.HostPathFileOrCreate))
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, "kept", string(content), "an existing file is not truncated")
	})
}

func TestFileOrCreateMakesNoDirectory(t *testing.T) {
	bothWays(t, func(t *testing.T, plugin *hostpath.Plugin, dir string) {
		parent := filepath.Join(dir, "missing")
		err := setUp(t, plugin, filepath.Join(parent, "file"), v1.HostPathFileOrCreate)
		require.ErrorIs(t, err, fs.ErrNotExist)
		assert.ErrorIs(t, err, volume.ErrNotFound)
		assert.ErrorContains(t, err, parent)
		assert.ErrorContains(t, err, "FileOrCreate does not make it")
		assert.NoDirExists(t, parent)
	})
}

func TestFiftyAtOnceCreateOneThing(t *testing.T) {
	for kind, mode := range map[v1.HostPathType]fs.FileMode{
		v1.HostPathDirectoryOrCreate: fs.ModeDir | 0o755,
		v1.HostPathFileOrCreate:      0o644,
	} {
		t.Run(string(kind), func(t *testing.T) {
			bothWays(t, func(t *testing.T, plugin *hostpath.Plugin, dir string) {
				setUmask(t, 0o077)
				path := filepath.Join(dir, "thing")
				if mode.IsDir() {
					path = filepath.Join(dir, "a", "b", "thing")
				}
				var all sync.WaitGroup
				begin := make(chan struct{})
				for range 50 {
					mounter := mounterOf(t, plugin, inline(path, kind))
					all.Go(func() {
						<-begin
						if !assert.NoError(t, mounter.SetUp(t.Context(), volume.SetUpOptions{})) {
							return
						}
						info, err := os.Lstat(path)
						if assert.NoError(t, err) {
							assert.Equal(t, mode.String(), info.Mode().String(), "the mode that each of them finds")
						}
					})
				}
				close(begin)
				all.Wait()
			})
		})
	}
}

// TestParentsThatVanishAreMadeAgain has somebody remove empty directories while others are made in them, fewer times than
// it takes to give up.
func TestParentsThatVanishAreMadeAgain(t *testing.T) {
	bothWays(t, func(t *testing.T, plugin *hostpath.Plugin, dir string) {
		path := filepath.Join(dir, "a", "b", "c")
		for range 100 {
			var removing sync.WaitGroup
			removing.Go(func() {
				for range 50 {
					for d := path; d != dir; d = filepath.Dir(d) {
						_ = os.Remove(d)
					}
				}
			})
			assert.NoError(t, setUp(t, plugin, path, v1.HostPathDirectoryOrCreate))
			removing.Wait()
		}
	})
}

func TestCreatingFollowsLinksToDirectories(t *testing.T) {
	bothWays(t, func(t *testing.T, plugin *hostpath.Plugin, dir string) {
		require.NoError(t, os.Mkdir(filepath.Join(dir, "real"), 0o755))
		require.NoError(t, os.Symlink("real", filepath.Join(dir, "link")))
		require.NoError(t, setUp(t, plugin, filepath.Join(dir, "link", "x", "y"), v1.HostPathDirectoryOrCreate))
		assert.DirExists(t, filepath.Join(dir, "real", "x", "y"))
		require.NoError(t, setUp(t, plugin, filepath.Join(dir, "link", "file"), v1.HostPathFileOrCreate))
		assert.FileExists(t, filepath.Join(dir, "real", "file"))
	})
}
