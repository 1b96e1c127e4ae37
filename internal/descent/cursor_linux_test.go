// SPDX-License-Identifier: Apache-2.0

package descent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/descent"
	"github.com/volumekit/volumekit/internal/mountns"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { os.Exit(mountns.Main(m)) }

func TestACursorGoesDownAndUpWithFewDescriptors(t *testing.T) {
	dir := t.TempDir()
	const depth = 3 * descent.MaxHeld
	require.NoError(t, os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", depth)), 0o777))
	before := open(t)
	c := begin(t, dir)
	var inodes []uint64
	path := dir
	for i := range depth {
		assert.Equal(t, i, c.Depth())
		assert.Equal(t, path, c.Path())
		inodes = append(inodes, inode(t, c.Dir()))
		require.NoError(t, c.Enter("d"))
		assert.Equal(t, "d", c.Name())
		assert.LessOrEqual(t, open(t)-before, descent.MaxHeld)
		path = filepath.Join(path, "d")
	}
	assert.Equal(t, descent.MaxHeld, open(t)-before)
	for i := depth - 1; i >= 0; i-- {
		require.NoError(t, c.Leave())
		assert.Equal(t, i, c.Depth())
		assert.Equal(t, inodes[i], inode(t, c.Dir()))
		assert.LessOrEqual(t, open(t)-before, descent.MaxHeld)
	}
	assert.Equal(t, dir, c.Path())
	assert.Empty(t, c.Name())
	c.Close()
	assert.Equal(t, before, open(t))
}

func TestACursorGoesUpAndDownAnyNumberOfTimes(t *testing.T) {
	dir := t.TempDir()
	const depth = 3 * descent.MaxHeld
	require.NoError(t, os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", depth)), 0o777))
	before := open(t)
	c := begin(t, dir)
	defer c.Close()
	inodes := map[int]uint64{}
	for _, to := range []int{depth, 50, depth, 1, depth, 0, 40, 30, 45, 20, depth, depth - 10, depth, 0, 3, 0} {
		for c.Depth() != to {
			if c.Depth() < to {
				require.NoError(t, c.Enter("d"))
			} else {
				require.NoError(t, c.Leave())
			}
			now := inode(t, c.Dir())
			if seen, ok := inodes[c.Depth()]; ok {
				require.Equal(t, seen, now)
			}
			inodes[c.Depth()] = now
			require.LessOrEqual(t, open(t)-before, descent.MaxHeld)
		}
	}
	assert.Equal(t, before+1, open(t))
}

func TestACursorThatCannotGoBackGoesToItsBeginning(t *testing.T) {
	const depth = 2 * descent.MaxHeld
	deep := func(levels int) string { return strings.Repeat("d/", levels) }
	for name, disturb := range map[string]func(t *testing.T, dir, elsewhere string){
		"a directory of the path is elsewhere": func(t *testing.T, dir, elsewhere string) {
			require.NoError(t, os.Rename(filepath.Join(dir, deep(5)), filepath.Join(elsewhere, "d")))
		},
		"a directory of the path is elsewhere in the tree": func(t *testing.T, dir, _ string) {
			require.NoError(t, os.Rename(filepath.Join(dir, deep(5)), filepath.Join(dir, "moved")))
		},
		"something is mounted on a directory of the path": func(t *testing.T, dir, elsewhere string) {
			mountns.RequirePrivate(t)
			on := filepath.Join(dir, deep(4))
			require.NoError(t, unix.Mount(elsewhere, on, "", unix.MS_BIND, ""))
			t.Cleanup(func() { require.NoError(t, unix.Unmount(on, unix.MNT_DETACH)) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.MkdirAll(filepath.Join(dir, deep(depth)), 0o777))
			before := open(t)
			c := begin(t, dir)
			for range depth {
				require.NoError(t, c.Enter("d"))
			}
			disturb(t, dir, t.TempDir())
			for c.Depth() > 5 {
				require.NoError(t, c.Leave())
			}
			assert.ErrorIs(t, c.Leave(), descent.ErrMoved)
			assert.Equal(t, 0, c.Depth())
			assert.Equal(t, dir, c.Path())
			assert.Equal(t, before+1, open(t))
			c.Close()
		})
	}
}

func TestACursorThatIsClosedHalfwayHoldsNothing(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", 50)), 0o777))
	for _, up := range []int{0, 10, 40, 50} {
		before := open(t)
		c := begin(t, dir)
		for range 50 {
			require.NoError(t, c.Enter("d"))
		}
		for range up {
			require.NoError(t, c.Leave())
		}
		c.Close()
		assert.Equal(t, before, open(t), "%d levels up", up)
	}
}

func TestOnlyDirectoriesInTheTreeAreEntered(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "d"), 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o666))
	require.NoError(t, os.Symlink("d", filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink("/proc/self/cwd", filepath.Join(dir, "magic")))
	c := begin(t, dir)
	defer c.Close()
	for name, want := range map[string][]error{
		"absent": {unix.ENOENT},
		"file":   {unix.ENOTDIR},
		"link":   {unix.ELOOP, unix.ENOTDIR},
		"magic":  {unix.ELOOP, unix.ENOTDIR},
		"..":     {unix.EXDEV},
		"/":      {unix.EXDEV},
	} {
		assert.Contains(t, want, c.Enter(name), name)
		assert.Equal(t, dir, c.Path(), name)
	}
	require.NoError(t, c.Enter("d"))
	assert.Equal(t, filepath.Join(dir, "d"), c.Path())
}

func TestWhatIsMountedIsNotEntered(t *testing.T) {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	dir := t.TempDir()
	c := begin(t, dir)
	defer c.Close()
	for name, mount := range map[string]func(on string){
		"a bind mount of the same file system": func(on string) {
			require.NoError(t, unix.Mount(t.TempDir(), on, "", unix.MS_BIND, ""))
		},
		"a bind mount of itself": func(on string) { require.NoError(t, unix.Mount(on, on, "", unix.MS_BIND, "")) },
		"a tmpfs":                func(on string) { require.NoError(t, unix.Mount("tmpfs", on, "tmpfs", 0, "")) },
	} {
		on := filepath.Join(dir, name)
		require.NoError(t, os.Mkdir(on, 0o777))
		mount(on)
		assert.Equal(t, unix.EXDEV, c.Enter(name), name)
		_, err := descent.Open(c.Dir(), name, unix.O_PATH)
		assert.Equal(t, unix.EXDEV, err, name)
		require.NoError(t, unix.Unmount(on, 0))
		require.NoError(t, c.Enter(name))
		require.NoError(t, c.Leave())
	}
}

func TestNamesAreReadToTheEndAndAgainAfterRewind(t *testing.T) {
	dir := t.TempDir()
	want := make([]string, 500)
	for i := range want {
		want[i] = strings.Repeat("x", i%200+1) + strings.Repeat("y", i/200)
		require.NoError(t, os.WriteFile(filepath.Join(dir, want[i]), nil, 0o666))
	}
	c := begin(t, dir)
	defer c.Close()
	buf := make([]byte, 4096)
	for range 2 {
		var got []string
		for {
			names, err := descent.ReadNames(c.Dir(), buf)
			require.NoError(t, err)
			if len(names) == 0 {
				break
			}
			got = append(got, names...)
		}
		assert.ElementsMatch(t, want, got)
		require.NoError(t, descent.Rewind(c.Dir()))
	}
}

func TestADirectoryThatIsGoneHasNoNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	require.NoError(t, os.Mkdir(dir, 0o777))
	c := begin(t, dir)
	defer c.Close()
	require.NoError(t, os.Remove(dir))
	names, err := descent.ReadNames(c.Dir(), make([]byte, 4096))
	assert.NoError(t, err)
	assert.Empty(t, names)
}

func begin(t *testing.T, dir string) *descent.Cursor {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	return descent.New(fd, dir)
}

// open counts the open descriptors.
func open(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

func inode(t *testing.T, fd int) uint64 {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(fd, &st))
	return st.Ino
}
