// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/internal/removal"
	"golang.org/x/sys/unix"
)

func TestWalkCountsAsDuDoes(t *testing.T) {
	for name, build := range map[string]func(t *testing.T, dir string){
		"an empty directory": func(*testing.T, string) {},
		"a file": func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(dir))
			write(t, dir, 10_000)
		},
		"an absent target of a link": func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(dir))
			require.NoError(t, os.Symlink("absent", dir))
		},
		"a link to a directory": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir+".target", "file"), 10_000)
			require.NoError(t, os.Remove(dir))
			require.NoError(t, os.Symlink(dir+".target", dir))
		},
		"files of many sizes": func(t *testing.T, dir string) {
			for size := 1; size < 1<<20; size *= 3 {
				write(t, filepath.Join(dir, fmt.Sprint(size)), size)
			}
		},
		"a file with a hole": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "sparse"), 4096)
			require.NoError(t, os.Truncate(filepath.Join(dir, "sparse"), 1<<30))
		},
		"hard links": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "a", "file"), 100_000)
			write(t, filepath.Join(dir, "outside"), 100_000)
			write(t, filepath.Join(dir, "b", "file"), 10)
			for i := range 10 {
				require.NoError(t, os.Link(filepath.Join(dir, "a", "file"), filepath.Join(dir, "a", fmt.Sprint("link", i))))
				require.NoError(t, os.Link(filepath.Join(dir, "a", "file"), filepath.Join(dir, "b", fmt.Sprint("link", i))))
			}
			require.NoError(t, os.Rename(filepath.Join(dir, "outside"), dir+".outside"))
			require.NoError(t, os.Link(dir+".outside", filepath.Join(dir, "c")))
		},
		"symbolic links": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "a", "file"), 100_000)
			for i, target := range []string{"a", "/", "..", "a/file", "absent", strings.Repeat("long/", 500)} {
				require.NoError(t, os.Symlink(target, filepath.Join(dir, fmt.Sprint(i))))
			}
		},
		"special files": func(t *testing.T, dir string) {
			require.NoError(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
			require.NoError(t, unix.Mknod(filepath.Join(dir, "socket"), unix.S_IFSOCK|0o600, 0))
		},
		"a tree that two walk": func(t *testing.T, dir string) {
			for i := range 12 {
				for j := range 12 {
					for k := range 5 {
						write(t, filepath.Join(dir, fmt.Sprint(i), fmt.Sprint(j), fmt.Sprint(k)), 1000*i)
					}
				}
			}
		},
		"a directory of many names that two walk": func(t *testing.T, dir string) {
			for i := range 5000 {
				path := filepath.Join(dir, fmt.Sprintf("a name that is not very short %d", i))
				switch i % 10 {
				case 0:
					write(t, filepath.Join(path, "file"), 1)
					write(t, filepath.Join(path, "other"), 1)
				case 1:
					require.NoError(t, os.Link(filepath.Join(dir, fmt.Sprintf("a name that is not very short %d", i-1), "file"), path))
				default:
					write(t, path, 0)
				}
			}
		},
		"a deep tree": func(t *testing.T, dir string) {
			at := dir
			for i := range 100 {
				write(t, filepath.Join(at, "a"), i)
				write(t, filepath.Join(at, "e", "file"), i)
				at = filepath.Join(at, "d")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "volume")
			require.NoError(t, os.Mkdir(dir, 0o777))
			build(t, dir)
			syncFS(t, filepath.Dir(dir))
			got, err := Walk(t.Context(), dir)
			require.NoError(t, err)
			assert.Equal(t, du(t, dir), got)
		})
	}
}

func TestWalkFollowsTheLinksThatLeadToThePath(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "real", "volume", "file"), 100_000)
	require.NoError(t, os.Symlink("real", filepath.Join(dir, "root")))
	syncFS(t, dir)
	got, err := Walk(t.Context(), filepath.Join(dir, "root", "volume"))
	require.NoError(t, err)
	assert.Equal(t, du(t, filepath.Join(dir, "real", "volume")), got)
}

func TestWalkLeavesOutWhatIsMountedInside(t *testing.T) {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	for name, foreign := range map[string]func(t *testing.T, on string){
		"a bind mount of the same file system": func(t *testing.T, on string) {
			source := t.TempDir()
			write(t, filepath.Join(source, "file"), 100_000)
			require.NoError(t, os.Mkdir(on, 0o777))
			mount(t, source, on, "", unix.MS_BIND, "")
		},
		"a bind mount of the volume itself": func(t *testing.T, on string) {
			require.NoError(t, os.Mkdir(on, 0o777))
			mount(t, filepath.Dir(on), on, "", unix.MS_BIND, "")
		},
		"a tmpfs": func(t *testing.T, on string) {
			require.NoError(t, os.Mkdir(on, 0o777))
			mount(t, "tmpfs", on, "tmpfs", 0, "")
			write(t, filepath.Join(on, "sub", "file"), 100_000)
		},
		"a bind mount of a file": func(t *testing.T, on string) {
			source := filepath.Join(t.TempDir(), "file")
			write(t, source, 100_000)
			write(t, on, 0)
			mount(t, source, on, "", unix.MS_BIND, "")
		},
		"a file system whose server is gone": func(t *testing.T, on string) {
			require.NoError(t, os.Mkdir(on, 0o777))
			mountns.DeadFUSE(t, on)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "a", "b", "file"), 100_000)
			syncFS(t, dir)
			want := du(t, dir)
			foreign(t, filepath.Join(dir, "a", "b", "mounted"))
			got, err := Walk(t.Context(), dir)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
}

func TestWalkMeasuresWhatIsMountedOnThePath(t *testing.T) {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	dir := t.TempDir()
	mount(t, "tmpfs", dir, "tmpfs", 0, "")
	write(t, filepath.Join(dir, "sub", "file"), 100_000)
	got, err := Walk(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, du(t, dir), got)
	assert.Greater(t, got.Bytes, int64(100_000))
}

func TestWalkOfAnAbsentPathIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "absent")
	_, err := Walk(t.Context(), path)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.ErrorContains(t, err, path)
}

func TestWhatVanishesDuringAWalkIsNoError(t *testing.T) {
	parent := quickDir(t)
	for _, vanishing := range []string{"a", "a/b", "a/" + strings.Repeat("d/", 35), "file"} {
		reached := 0
		for at := 1; ; at++ {
			dir, err := os.MkdirTemp(parent, "")
			require.NoError(t, err)
			write(t, filepath.Join(dir, "a", strings.Repeat("d/", 40), "file"), 1)
			write(t, filepath.Join(dir, "a", "b", "file"), 1)
			write(t, filepath.Join(dir, "file"), 1)
			var was atomic.Bool
			ctx := &hooked{Context: t.Context(), hook: func(n int) error {
				if n == at {
					was.Store(true)
					assert.NoError(t, os.RemoveAll(filepath.Join(dir, vanishing)))
				}
				return nil
			}}
			_, err = Walk(ctx, dir)
			require.NoError(t, err, "at call %d", at)
			if !was.Load() {
				break
			}
			reached++
		}
		assert.Greater(t, reached, 40)
	}
}

func TestWhatIsMovedDuringAWalkDoesNotHideTheRest(t *testing.T) {
	parent := quickDir(t)
	elsewhere := filepath.Join(parent, "elsewhere")
	require.NoError(t, os.Mkdir(elsewhere, 0o777))
	reached := 0
	for at := 1; ; at++ {
		dir, err := os.MkdirTemp(parent, "")
		require.NoError(t, err)
		const deep, beside = 40, 3
		write(t, filepath.Join(dir, "a", strings.Repeat("d/", deep), "file"), 1)
		for i := range beside {
			write(t, filepath.Join(dir, "beside", fmt.Sprint(i), "file"), 1)
			write(t, filepath.Join(dir, fmt.Sprint("beside", i), "file"), 1)
		}
		var was atomic.Bool
		got, err := Walk(&hooked{Context: t.Context(), hook: func(n int) error {
			if n == at {
				was.Store(true)
				return os.Rename(filepath.Join(dir, "a", "d", "d"), filepath.Join(elsewhere, fmt.Sprint(at)))
			}
			return nil
		}}, dir)
		require.NoError(t, err)
		const rest = 1 + 2 + 1 + 4*beside // dir, a, a/d, beside, and what is in and beside it
		assert.GreaterOrEqual(t, got.Inodes, int64(rest))
		assert.LessOrEqual(t, got.Inodes, int64(rest+deep))
		if !was.Load() {
			assert.Equal(t, int64(rest+deep), got.Inodes)
			break
		}
		reached++
	}
	assert.Greater(t, reached, 40)
}

func TestADirectoryThatTurnsIntoAWayOutIsNotFollowed(t *testing.T) {
	const big = 1 << 20
	for name, disturb := range map[string]func(t *testing.T, dir, target string) (undo func()){
		"exchanged with a link": func(t *testing.T, dir, _ string) func() {
			require.NoError(t, unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, "a", "b"),
				unix.AT_FDCWD, filepath.Join(dir, "a", "link"), unix.RENAME_EXCHANGE))
			return func() {}
		},
		"mounted on": func(t *testing.T, dir, target string) func() {
			mountns.RequirePrivate(t)
			on := filepath.Join(dir, "a", "b")
			require.NoError(t, unix.Mount(target, on, "", unix.MS_BIND, ""))
			return func() { require.NoError(t, unix.Unmount(on, unix.MNT_DETACH)) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			target := filepath.Join(parent, "target")
			write(t, filepath.Join(target, "file"), big)
			for at, reached := 1, true; reached; at++ {
				dir, err := os.MkdirTemp(parent, "")
				require.NoError(t, err)
				write(t, filepath.Join(dir, "a", "b", "file"), 1)
				require.NoError(t, os.Symlink("../../target", filepath.Join(dir, "a", "link")))
				undo := make(chan func(), 1)
				got, err := Walk(&hooked{Context: t.Context(), hook: func(n int) error {
					if n == at {
						undo <- disturb(t, dir, target)
					}
					return nil
				}}, dir)
				require.NoError(t, err)
				assert.Less(t, got.Bytes, int64(big))
				select {
				case f := <-undo:
					f()
				default:
					reached = false
					assert.Greater(t, at, 5)
				}
			}
		})
	}
}

func TestWalkEndsWithTheContext(t *testing.T) {
	dir := quickDir(t)
	for i := range 20 {
		for j := range 50 {
			write(t, filepath.Join(dir, fmt.Sprint(i), fmt.Sprint(j)), 0)
		}
	}
	for _, at := range []int64{1, 2, 30, 500} {
		ctx := &hooked{Context: t.Context(), hook: func(n int) error {
			if int64(n) > at {
				return context.Canceled
			}
			return nil
		}}
		got, err := Walk(ctx, dir)
		require.ErrorIs(t, err, context.Canceled)
		assert.Zero(t, got)
		assert.Less(t, ctx.calls.Load(), at+20, "it must not go on")
	}
}

func TestWalkDoesNotWaitForAServerThatIsGone(t *testing.T) {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	dir := t.TempDir()
	kill := mountns.DeadFUSE(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() {
		_, err := Walk(ctx, dir)
		result <- err
	}()
	cancel()
	assert.ErrorIs(t, <-result, context.Canceled) // a hang here is the failure
	kill()
}

func TestWalkOfAVeryDeepTreeNeedsFewDescriptors(t *testing.T) {
	dir := quickDir(t)
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	const depth = 10_000
	for range depth {
		require.NoError(t, unix.Mkdirat(fd, "directory", 0o777))
		require.NoError(t, unix.Mknodat(fd, "file", unix.S_IFREG|0o666, 0))
		next, err := unix.Openat(fd, "directory", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	t.Cleanup(func() { // too deep for that of TempDir
		require.NoError(t, removal.All(context.Background(), filepath.Join(dir, "directory")))
	})
	var most atomic.Int64
	before := descriptors(t)
	ctx := &hooked{Context: t.Context(), hook: func(n int) error {
		if n%100 == 0 {
			most.Store(max(most.Load(), int64(descriptors(t)-before)))
		}
		return nil
	}}
	got, err := Walk(ctx, dir)
	require.NoError(t, err)
	assert.Equal(t, int64(2*depth+1), got.Inodes)
	assert.LessOrEqual(t, most.Load(), int64(70))
	assert.Greater(t, most.Load(), int64(20))
	assert.Equal(t, before, descriptors(t))
}

func TestWalkCountsWhatItCanAndNamesWhatItCannot(t *testing.T) {
	mountns.AsOrdinaryUser(t, func(t *testing.T) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "a", "file"), 100_000)
		write(t, filepath.Join(dir, "closed", "file"), 100_000)
		write(t, filepath.Join(dir, "z", "file"), 100_000)
		closed := filepath.Join(dir, "closed")
		require.NoError(t, os.Chmod(closed, 0))
		defer os.Chmod(closed, 0o700)
		got, err := Walk(t.Context(), dir)
		require.ErrorIs(t, err, fs.ErrPermission)
		assert.ErrorContains(t, err, closed)
		assert.Equal(t, int64(6), got.Inodes)
		assert.Greater(t, got.Bytes, int64(200_000))
	})
}

// du asks coreutils. Inodes need a second run.
func du(t *testing.T, path string) Usage {
	t.Helper()
	number := func(args ...string) (n int64) {
		out, err := exec.Command("du", append(args, path)...).Output()
		require.NoError(t, err)
		_, err = fmt.Fscan(bytes.NewReader(out), &n)
		require.NoError(t, err)
		return n
	}
	return Usage{Bytes: number("-sxB1"), Inodes: number("-sx", "--inodes")}
}

// syncFS has a file system allocate what is written, so that nothing changes any more.
func syncFS(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(dir)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, unix.Syncfs(int(f.Fd())))
}

// hooked is a context that calls hook whenever it is asked whether it has ended, with the number of the call.
type hooked struct {
	context.Context
	hook  func(n int) error
	calls atomic.Int64
}

func (c *hooked) Err() error { return c.hook(int(c.calls.Add(1))) }

func descriptors(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	assert.NoError(t, err)
	return len(entries)
}

func write(t *testing.T, path string, size int) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("x"), size), 0o666))
}

// mount mounts until the end of the test.
func mount(t *testing.T, source, on, fstype string, flags uintptr, data string) {
	t.Helper()
	require.NoError(t, unix.Mount(source, on, fstype, flags, data))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(on, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)) })
}

// quickDir returns a directory on a tmpfs where that can be had: what makes many trees takes a tenth of the time there.
func quickDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if os.Geteuid() == 0 {
		mountns.RequirePrivate(t)
		mount(t, "tmpfs", dir, "tmpfs", 0, "")
	}
	return dir
}
