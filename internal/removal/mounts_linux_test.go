// SPDX-License-Identifier: Apache-2.0

package removal_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/internal/removal"
	"golang.org/x/sys/unix"
)

// mounts are the ways to have something foreign in a volume. Each mounts on a path, which it makes, and returns the
// files that have to be there afterwards.
var mounts = map[string]func(t *testing.T, on string) (kept []string){
	"a bind mount of the same file system": func(t *testing.T, on string) []string {
		source := filepath.Join(t.TempDir(), "source")
		write(t, filepath.Join(source, "file"))
		write(t, filepath.Join(source, "sub", "file"))
		mkdir(t, on)
		mount(t, source, on, "", unix.MS_BIND)
		return []string{filepath.Join(source, "file"), filepath.Join(source, "sub", "file")}
	},
	"an empty bind mount of the same file system": func(t *testing.T, on string) []string {
		source := t.TempDir()
		mkdir(t, on)
		mount(t, source, on, "", unix.MS_BIND)
		return nil
	},
	"a tmpfs": func(t *testing.T, on string) []string {
		mkdir(t, on)
		mount(t, "tmpfs", on, "tmpfs", 0)
		write(t, filepath.Join(on, "file"))
		write(t, filepath.Join(on, "sub", "file"))
		return []string{filepath.Join(on, "file"), filepath.Join(on, "sub", "file")}
	},
	"a bind mount of a file": func(t *testing.T, on string) []string {
		source := filepath.Join(t.TempDir(), "source")
		write(t, source)
		write(t, on)
		mount(t, source, on, "", unix.MS_BIND)
		return []string{source, on}
	},
	"a mount on what was not empty": func(t *testing.T, on string) []string {
		source := t.TempDir()
		write(t, filepath.Join(source, "file"))
		write(t, filepath.Join(on, "beneath"))
		mount(t, source, on, "", unix.MS_BIND)
		return []string{filepath.Join(source, "file"), filepath.Join(on, "file")}
	},
	"a mount on a mount": func(t *testing.T, on string) []string {
		mkdir(t, on)
		mount(t, "tmpfs", on, "tmpfs", 0)
		write(t, filepath.Join(on, "sub", "file"))
		mount(t, "tmpfs", filepath.Join(on, "sub"), "tmpfs", 0)
		write(t, filepath.Join(on, "sub", "above"))
		return []string{filepath.Join(on, "sub", "above")}
	},
	"a file system whose server is gone": func(t *testing.T, on string) []string {
		mkdir(t, on)
		mountns.DeadFUSE(t, on)
		return nil
	},
}

func TestWhatIsMountedInsideIsLeftWholeAndReported(t *testing.T) {
	for name, foreign := range mounts {
		for _, at := range []string{"mounted", "a/b/mounted", strings.Repeat("d/", 50) + "mounted"} {
			t.Run(name+fmt.Sprint(" at depth ", strings.Count(at, "/")+1), func(t *testing.T) {
				mountns.RequirePrivate(t)
				mountns.CheckNoMountsLeft(t)
				path := filepath.Join(t.TempDir(), "volume")
				on := filepath.Join(path, at)
				for dir := filepath.Dir(on); len(dir) >= len(path); dir = filepath.Dir(dir) {
					write(t, filepath.Join(dir, "a file before it"))
					write(t, filepath.Join(dir, "zz file after it"))
					write(t, filepath.Join(dir, "other", "file"))
				}
				kept := foreign(t, on)

				for _, remove := range []func(context.Context, string) error{removal.All, removal.Contents} {
					err := remove(t.Context(), path)
					var mounted *removal.MountedError
					require.ErrorAs(t, err, &mounted)
					assert.Same(t, mounted, err, "nothing else is wrong")
					assert.Equal(t, []string{on}, mounted.Paths)
					assert.False(t, mounted.More)
					assert.ErrorContains(t, err, on)
					assert.ErrorContains(t, err, "unmount")
					for _, file := range kept {
						assert.FileExists(t, file)
					}
					// Nothing but the way to the mount point is left.
					for dir := path; dir != on; dir = filepath.Join(dir, names(t, dir)[0]) {
						require.Len(t, names(t, dir), 1, dir)
					}
				}

				unmount(t, on)
				require.NoError(t, removal.All(t.Context(), path))
				assert.NoDirExists(t, path)
			})
		}
	}
}

func TestAMountPointItselfIsNotTouched(t *testing.T) {
	for name, foreign := range mounts {
		t.Run(name, func(t *testing.T) {
			mountns.RequirePrivate(t)
			mountns.CheckNoMountsLeft(t)
			path := filepath.Join(t.TempDir(), "volume")
			kept := foreign(t, path)
			for what, remove := range map[string]func(context.Context, string) error{
				"All": removal.All, "Contents": removal.Contents,
			} {
				err := remove(t.Context(), path)
				var mounted *removal.MountedError
				require.ErrorAs(t, err, &mounted, what)
				assert.Equal(t, []string{path}, mounted.Paths, what)
				for _, file := range kept {
					assert.FileExists(t, file, what)
				}
			}
			unmount(t, path)
			require.NoError(t, removal.All(t.Context(), path))
		})
	}
}

func TestWhatIsMountedMeanwhileIsLeftWhole(t *testing.T) {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	dir := quickDir(t)
	source, path := filepath.Join(dir, "source"), filepath.Join(dir, "volume")
	write(t, filepath.Join(source, "file"))
	write(t, filepath.Join(source, "sub", "file"))
	for _, on := range []string{path, filepath.Join(path, "a"), filepath.Join(path, "a", strings.Repeat("d/", 34)+"d")} {
		interrupted := 0
		for at := 2; ; at++ {
			deep := filepath.Join(path, "a", strings.Repeat("d/", 36))
			write(t, filepath.Join(deep, "file"))
			write(t, filepath.Join(path, "z"))
			was := false
			ctx := &hooked{Context: t.Context(), hook: func(n int) error {
				if n == at {
					was = unix.Mount(source, on, "", unix.MS_BIND, "") == nil
				}
				return nil
			}}
			err := removal.All(ctx, path)
			require.FileExists(t, filepath.Join(source, "file"))
			require.FileExists(t, filepath.Join(source, "sub", "file"))
			if !was {
				require.NoError(t, err)
				break
			}
			interrupted++
			var mounted *removal.MountedError
			require.ErrorAs(t, err, &mounted, "mounted on %s at call %d", on, at)
			require.Equal(t, []string{on}, mounted.Paths)
			unmount(t, on)
			require.NoError(t, removal.All(t.Context(), path))
		}
		assert.Greater(t, interrupted, 36)
	}
}

func TestAMountPointIsNamedOnceHoweverOftenItIsMet(t *testing.T) {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	dir := quickDir(t)
	path, elsewhere := filepath.Join(dir, "volume"), filepath.Join(dir, "elsewhere")
	mkdir(t, elsewhere)
	// In whichever order they are read, one mount point comes before the directory that is moved, which makes the removal
	// begin anew, and one after it.
	on := []string{filepath.Join(path, "a", "on"), filepath.Join(path, "z", "on")}
	for at := range 80 {
		mkdir(t, on[0])
		write(t, filepath.Join(path, "m", strings.Repeat("d/", 36), "file"))
		mkdir(t, on[1])
		for _, p := range on {
			require.NoError(t, unix.Mount(elsewhere, p, "", unix.MS_BIND, ""))
		}
		err := removal.All(&hooked{Context: t.Context(), hook: func(n int) error {
			if n == at {
				_ = os.Rename(filepath.Join(path, "m", "d", "d"), filepath.Join(elsewhere, "d"))
			}
			return nil
		}}, path)
		for _, p := range on {
			unmount(t, p)
		}
		var mounted *removal.MountedError
		require.ErrorAs(t, err, &mounted)
		require.ElementsMatch(t, on, mounted.Paths)
		require.NoError(t, removal.All(t.Context(), path))
		require.NoError(t, removal.Contents(t.Context(), elsewhere))
	}
}

func TestManyMountPointsAreCounted(t *testing.T) {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	path, source := filepath.Join(t.TempDir(), "volume"), t.TempDir()
	for i := range 40 {
		on := filepath.Join(path, fmt.Sprintf("%02d", i))
		mkdir(t, on)
		mount(t, source, on, "", unix.MS_BIND)
	}
	err := removal.All(t.Context(), path)
	var mounted *removal.MountedError
	require.ErrorAs(t, err, &mounted)
	assert.Len(t, mounted.Paths, 32)
	assert.Len(t, slices.Compact(slices.Sorted(slices.Values(mounted.Paths))), 32)
	assert.True(t, mounted.More)
	assert.ErrorContains(t, err, "and more")
}

func TestAMountAndAFailureAreBothReported(t *testing.T) {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	path := filepath.Join(t.TempDir(), "volume")
	stuck, on := filepath.Join(path, "stuck"), filepath.Join(path, "on")
	write(t, stuck)
	setImmutable(t, stuck, true)
	t.Cleanup(func() { setImmutable(t, stuck, false) })
	mkdir(t, on)
	mount(t, "tmpfs", on, "tmpfs", 0)

	err := removal.All(t.Context(), path)
	var mounted *removal.MountedError
	require.ErrorAs(t, err, &mounted)
	assert.Equal(t, []string{on}, mounted.Paths)
	assert.ErrorIs(t, err, unix.EPERM)
	assert.ErrorContains(t, err, stuck)
	assert.ErrorContains(t, err, "unmount")
}

func TestAReadOnlyFileSystemIsReported(t *testing.T) {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	dir := t.TempDir()
	mount(t, "tmpfs", dir, "tmpfs", 0)
	path := filepath.Join(dir, "volume")
	write(t, filepath.Join(path, "sub", "file"))
	require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	err := removal.All(t.Context(), path)
	assert.ErrorIs(t, err, unix.EROFS)
	assert.ErrorContains(t, err, path)
	assert.ErrorIs(t, removal.Contents(t.Context(), path), unix.EROFS)
	assert.FileExists(t, filepath.Join(path, "sub", "file"))
}

// mount mounts until the end of the test, or until it is unmounted.
func mount(t testing.TB, source, on, fstype string, flags uintptr) {
	t.Helper()
	require.NoError(t, unix.Mount(source, on, fstype, flags, ""))
	t.Cleanup(func() {
		if _, err := os.Lstat(on); err == nil {
			_ = unix.Unmount(on, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		}
	})
}

// unmount unmounts whatever is mounted on a path, and what is mounted in that.
func unmount(t testing.TB, on string) {
	t.Helper()
	require.NoError(t, unix.Unmount(on, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW))
}
