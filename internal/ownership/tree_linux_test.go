// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"context"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/mountns"
	"golang.org/x/sys/unix"
)

const testGroup = 4321

// state is what a walk may change of an entry.
type state struct {
	owner, group, mode uint32
}

// states returns those of path and all that is beneath it, by their paths from it.
func states(t *testing.T, path string) map[string]state {
	t.Helper()
	all := map[string]state{}
	require.NoError(t, filepath.WalkDir(path, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		all[p[len(path):]] = stateOf(t, p)
		return nil
	}))
	return all
}

func stateOf(t *testing.T, path string) state {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Lstat(path, &st))
	return state{st.Uid, st.Gid, st.Mode}
}

// wanted returns what the states are to become.
func wanted(before map[string]state, options Options) map[string]state {
	after := map[string]state{}
	for path, s := range before {
		s.group = uint32(options.Group)
		mask := uint32(0o660)
		if options.ReadOnly {
			mask = 0o440
		}
		switch s.mode & unix.S_IFMT {
		case unix.S_IFLNK:
		case unix.S_IFDIR:
			s.mode |= mask | 0o2110
		default:
			s.mode |= mask
		}
		after[path] = s
	}
	return after
}

func write(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
	require.NoError(t, os.Chmod(path, mode))
}

// colourful makes a volume with something of each kind.
func colourful(t *testing.T, path string) {
	t.Helper()
	for i, mode := range []os.FileMode{0, 0o600, 0o644, 0o777, 0o660, 0o755 | fs.ModeSetuid, 0o755 | fs.ModeSetgid, 0o644 | fs.ModeSticky, 0o4755} {
		for _, in := range []string{"", "a", "a/b"} {
			write(t, filepath.Join(path, in, fmt.Sprint("file", i)), mode)
		}
		dir := filepath.Join(path, fmt.Sprint("directory", i))
		write(t, filepath.Join(dir, "file"), 0o640)
		require.NoError(t, os.Chmod(dir, mode))
	}
	write(t, filepath.Join(path, "names", "of several\nlines, and \xff\xfe bytes \x01"), 0o600)
	require.NoError(t, os.Mkdir(filepath.Join(path, "names", "\n"), 0o700))
	write(t, filepath.Join(path, "names", "\n", "..."), 0o600)
	require.NoError(t, os.Link(filepath.Join(path, "file1"), filepath.Join(path, "a", "hard link")))
	for i, target := range []string{"a", "absent", "/", "../..", "file0"} {
		require.NoError(t, os.Symlink(target, filepath.Join(path, fmt.Sprint("link", i))))
	}
	require.NoError(t, unix.Mkfifo(filepath.Join(path, "fifo"), 0o600)) // opening it would hang
	require.NoError(t, unix.Mknod(filepath.Join(path, "socket"), unix.S_IFSOCK|0o600, 0))
	require.NoError(t, unix.Mknod(filepath.Join(path, "device"), unix.S_IFCHR|0o600, int(unix.Mkdev(240, 250)))) // nobody's
	require.NoError(t, unix.Mknod(filepath.Join(path, "block"), unix.S_IFBLK|0o600, int(unix.Mkdev(240, 250))))
	for i, owner := range []int{1, 2, 3} {
		require.NoError(t, os.Lchown(filepath.Join(path, fmt.Sprint("link", i)), owner, owner))
		require.NoError(t, os.Lchown(filepath.Join(path, "a", fmt.Sprint("file", i)), owner, owner))
	}
}

// wide makes a directory of many files on a tmpfs.
func wide(t testing.TB, path string, directories, files int) {
	t.Helper()
	for i := range directories {
		dir := filepath.Join(path, fmt.Sprint(i))
		require.NoError(t, os.MkdirAll(dir, 0o755))
		for j := range files {
			require.NoError(t, unix.Mknod(filepath.Join(dir, fmt.Sprint(j)), unix.S_IFREG|0o644, 0))
		}
	}
}

// quickDir returns a directory on a tmpfs of its own.
func quickDir(t *testing.T) string {
	t.Helper()
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	dir := t.TempDir()
	mount(t, "tmpfs", dir, "tmpfs", 0, "")
	return dir
}

// mount mounts until the end of the test.
func mount(t *testing.T, source, on, fstype string, flags uintptr, data string) {
	t.Helper()
	require.NoError(t, unix.Mount(source, on, fstype, flags, data))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(on, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)) })
}

// hooked is a context that calls hook whenever it is asked whether it has ended, with the number of the call.
type hooked struct {
	context.Context
	hook  func(n int)
	calls atomic.Int64
}

func (c *hooked) Err() error {
	c.hook(int(c.calls.Add(1)))
	return c.Context.Err()
}
