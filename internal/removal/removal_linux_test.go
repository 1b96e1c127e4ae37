// SPDX-License-Identifier: Apache-2.0

package removal_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/internal/removal"
	"golang.org/x/sys/unix"
)

func TestAPathThatDoesNotEndInANameIsRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "volume", "file"))
	t.Chdir(filepath.Join(dir, "volume"))
	for _, path := range []string{"", ".", "..", "/", "//", "./", "../", dir + "/volume/.", dir + "/volume/.."} {
		assert.ErrorContains(t, removal.All(t.Context(), path), "must end in the name", "All(%q)", path)
		assert.ErrorContains(t, removal.Contents(t.Context(), path), "must end in the name", "Contents(%q)", path)
	}
	assert.FileExists(t, filepath.Join(dir, "volume", "file"))
}

func TestAPathMeansWhatItMeansToTheKernel(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "volume"))           // what "link/../volume" is when the text is cleaned
	write(t, filepath.Join(dir, "a", "volume", "f")) // what it is
	mkdir(t, filepath.Join(dir, "a", "b"))
	require.NoError(t, os.Symlink("a/b", filepath.Join(dir, "link")))
	require.NoError(t, removal.All(t.Context(), dir+"/link/../volume"))
	assert.FileExists(t, filepath.Join(dir, "volume"))
	assert.NoDirExists(t, filepath.Join(dir, "a", "volume"))

	t.Chdir(dir)
	require.NoError(t, removal.All(t.Context(), "a"))
	require.NoError(t, removal.All(t.Context(), "volume"))
	assert.Equal(t, []string{"link"}, names(t, dir))
}

func TestALinkIsNotFollowedForASlashAtTheEnd(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "kept", "file"))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink("kept", link))
	assert.ErrorIs(t, removal.Contents(t.Context(), link+"/"), unix.ENOTDIR)
	require.NoError(t, removal.All(t.Context(), link+"//"))
	assert.Equal(t, []string{"kept"}, names(t, dir))
	assert.FileExists(t, filepath.Join(dir, "kept", "file"))
}

func TestAllRemovesNamesThatAreHardToPrint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "volume")
	for _, name := range []string{"...", " ", "new\nline", "-rf", "\xff", "*"} {
		write(t, filepath.Join(path, name, name))
	}
	require.NoError(t, removal.All(t.Context(), path))
	assert.NoDirExists(t, path)
}

func TestAllRemovesSpecialFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "volume")
	mkdir(t, path)
	require.NoError(t, unix.Mkfifo(filepath.Join(path, "fifo"), 0o600))
	require.NoError(t, unix.Mknod(filepath.Join(path, "socket"), unix.S_IFSOCK|0o600, 0))
	require.NoError(t, removal.All(t.Context(), path))
	assert.NoDirExists(t, path)
}

func TestAllEndsWithTheContextAndTheNextCallGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "volume")
	for i := range 100 {
		write(t, filepath.Join(path, fmt.Sprintf("%02d", i)))
	}
	ctx := &hooked{Context: t.Context()}
	ctx.hook = func(n int) error {
		if n > 50 {
			return context.Canceled
		}
		return nil
	}
	require.ErrorIs(t, removal.All(ctx, path), context.Canceled)
	left := len(names(t, path))
	assert.Greater(t, left, 30)
	assert.Less(t, left, 100)
	require.NoError(t, removal.All(t.Context(), path))
	assert.NoDirExists(t, path)
}

func TestTwoRemovalsOfOnePathBothSucceed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "volume")
	for range 50 {
		for i := range 4 {
			for j := range 4 {
				write(t, filepath.Join(path, fmt.Sprint(i), fmt.Sprint(j), "file"))
			}
		}
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() { assert.NoError(t, removal.All(t.Context(), path)) })
		}
		group.Wait()
		require.NoDirExists(t, path)
	}
}

func TestWhatIsAddedMeanwhileIsRemovedToo(t *testing.T) {
	for name, remove := range map[string]func(context.Context, string) error{
		"by All": removal.All, "by Contents": removal.Contents,
	} {
		for _, in := range []string{"", "sub"} {
			t.Run(name+" in ./"+in, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "volume")
				ctx := &hooked{Context: t.Context()}
				var added atomic.Bool
				// One call for each entry, and a few more: try each place in turn until nothing is left to interrupt.
				for at := 2; ; at++ {
					write(t, filepath.Join(path, in, "file"))
					added.Store(false)
					*ctx = hooked{Context: t.Context(), hook: func(n int) error {
						if n == at {
							// It may be gone already, and then there is nowhere to add to.
							added.Store(os.WriteFile(filepath.Join(path, in, "late"), nil, 0o666) == nil)
						}
						return nil
					}}
					require.NoError(t, remove(ctx, path))
					if !added.Load() {
						break
					}
					assert.NoFileExists(t, filepath.Join(path, in, "late"), "added at call %d", at)
				}
				assert.Greater(t, ctx.calls.Load(), int64(3))
			})
		}
	}
}

func TestADirectoryThatSomebodyKeepsFillingIsGivenUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "volume")
	sub := filepath.Join(path, "sub")
	write(t, filepath.Join(sub, "file"))
	ctx := &hooked{Context: t.Context()}
	ctx.hook = func(int) error {
		return os.WriteFile(filepath.Join(sub, "again"), nil, 0o666)
	}
	err := removal.All(ctx, path)
	require.ErrorContains(t, err, "keeps changing")
	assert.ErrorContains(t, err, sub)
	require.NoError(t, removal.All(t.Context(), path))
}

func TestWhatCannotBeRemovedIsNamedAndTheRestGoes(t *testing.T) {
	mountns.RequirePrivate(t) // root, that is: nobody else may set the attribute
	path := filepath.Join(t.TempDir(), "volume")
	write(t, filepath.Join(path, "a", "file"))
	write(t, filepath.Join(path, "b", "c", "file"))
	write(t, filepath.Join(path, "d", "file"))
	mkdir(t, filepath.Join(path, "e"))
	write(t, filepath.Join(path, "e\nf", "file"))
	stuck := []string{filepath.Join(path, "b", "c", "file"), filepath.Join(path, "d"), filepath.Join(path, "e")}
	for _, p := range stuck {
		setImmutable(t, p, true)
	}
	err := removal.All(t.Context(), path)
	require.ErrorIs(t, err, unix.EPERM)
	for _, p := range []string{stuck[0], filepath.Join(path, "d", "file"), stuck[2]} {
		assert.ErrorContains(t, err, fmt.Sprintf("%q", p))
	}
	assert.NotContains(t, err.Error(), "\n")
	assert.Equal(t, []string{"b", "d", "e"}, names(t, path))
	for _, p := range stuck {
		setImmutable(t, p, false)
	}
	require.NoError(t, removal.All(t.Context(), path))
}

func TestTheErrorIsBounded(t *testing.T) {
	mountns.RequirePrivate(t)
	path := filepath.Join(t.TempDir(), "volume")
	for i := range 100 {
		write(t, filepath.Join(path, strings.Repeat("x", 200)+fmt.Sprint(i)))
		setImmutable(t, filepath.Join(path, strings.Repeat("x", 200)+fmt.Sprint(i)), true)
	}
	err := removal.All(t.Context(), path)
	require.ErrorIs(t, err, unix.EPERM)
	assert.ErrorContains(t, err, "and more")
	assert.Less(t, len(err.Error()), 20_000)
	for _, name := range names(t, path) {
		setImmutable(t, filepath.Join(path, name), false)
	}
}

func TestNoDescriptorIsLeftOpen(t *testing.T) {
	path := filepath.Join(quickDir(t), "volume")
	before := len(names(t, "/proc/self/fd"))
	for at := range 110 { // 51 directories down and up, ended at every step
		deepTree(t, path, 50, "d")
		ctx := &hooked{Context: t.Context(), hook: func(n int) error {
			if n > at {
				return context.Canceled
			}
			return nil
		}}
		_ = removal.All(ctx, path)
		require.NoError(t, removal.All(t.Context(), path))
	}
	assert.Len(t, names(t, "/proc/self/fd"), before)
}

// hooked is a context that calls hook whenever it is asked whether it has ended, with the number of the call: once
// between any two entries.
type hooked struct {
	context.Context
	hook  func(n int) error
	calls atomic.Int64
}

func (c *hooked) Err() error { return c.hook(int(c.calls.Add(1))) }

func setImmutable(t testing.TB, path string, on bool) {
	t.Helper()
	const immutable = 0x10 // FS_IMMUTABLE_FL
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	require.NoError(t, err)
	flags &^= immutable
	if on {
		flags |= immutable
	}
	require.NoError(t, unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags))
}

// deepTree makes a chain of directories that may be longer than a path can be, with a file in the deepest one.
func deepTree(t testing.TB, path string, depth int, name string) {
	t.Helper()
	require.NoError(t, os.Mkdir(path, 0o777))
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	for range depth {
		if err = unix.Mkdirat(fd, name, 0o777); err != nil {
			break
		}
		var next int
		if next, err = unix.Openat(fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
			break
		}
		unix.Close(fd)
		fd = next
	}
	if err == nil {
		err = unix.Mknodat(fd, "file", unix.S_IFREG|0o666, 0)
	}
	unix.Close(fd)
	require.NoError(t, err)
}
