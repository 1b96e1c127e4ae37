// SPDX-License-Identifier: Apache-2.0

package removal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/internal/removal"
	"golang.org/x/sys/unix"
)

// outside fills a directory so that it looks like the one that is to be removed, and returns a function that checks
// that nothing in it has been touched.
func outside(t *testing.T, dir string) (check func()) {
	var files []string
	for _, sub := range []string{"", "sub", "sub/sub"} {
		for i := range 10 {
			files = append(files, filepath.Join(dir, sub, fmt.Sprintf("file%d", i)))
		}
	}
	for _, file := range files {
		write(t, file)
	}
	return func() {
		t.Helper()
		for _, file := range files {
			require.FileExists(t, file)
		}
	}
}

func TestADirectoryThatIsSwappedWithALinkLeadsNowhere(t *testing.T) {
	dir := quickDir(t)
	target, path := filepath.Join(dir, "target"), filepath.Join(dir, "volume")
	check := outside(t, target)
	hits := 0
	for range 300 {
		for _, in := range []string{path, filepath.Join(path, "a", "b")} {
			for i := range 10 {
				write(t, filepath.Join(in, "swapped", fmt.Sprintf("file%d", i)))
				write(t, filepath.Join(in, "swapped", "sub", fmt.Sprintf("file%d", i)))
			}
			require.NoError(t, os.Symlink(relative(t, in, target), filepath.Join(in, "link")))
		}
		swapped, stop := make(chan int), make(chan struct{})
		go func() {
			n := 0
			defer func() { swapped <- n }()
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, in := range []string{path, filepath.Join(path, "a", "b")} {
					if exchange(filepath.Join(in, "swapped"), filepath.Join(in, "link")) == nil {
						n++
					}
				}
			}
		}()
		err := removal.All(t.Context(), path)
		close(stop)
		hits += <-swapped
		require.NoError(t, err)
		require.NoDirExists(t, path)
		check()
	}
	assert.Greater(t, hits, 300, "the race must have been one")
}

func TestAnExchangeAtAnyPointLeadsNowhere(t *testing.T) {
	dir := quickDir(t)
	target, elsewhere := filepath.Join(dir, "target"), filepath.Join(dir, "elsewhere")
	check := outside(t, target)
	mkdir(t, elsewhere)
	for name, disturb := range map[string]func(path string) error{
		"a directory with a link": func(path string) error {
			return exchange(filepath.Join(path, "a", "sub"), filepath.Join(path, "link"))
		},
		"the path itself with a link": func(path string) error {
			return exchange(path, filepath.Join(filepath.Dir(path), "link"))
		},
		"a directory with one of the tree above it": func(path string) error {
			return exchange(filepath.Join(path, "a", "sub"), filepath.Join(path, "other"))
		},
		"a directory that goes elsewhere": func(path string) error {
			return os.Rename(filepath.Join(path, "a", strings.Repeat("d/", 3)+"d"), filepath.Join(elsewhere, "d"))
		},
		"a directory that goes to where the link leads": func(path string) error {
			return os.Rename(filepath.Join(path, "a", strings.Repeat("d/", 3)+"d"), filepath.Join(target, "d"))
		},
		"a directory that goes elsewhere in the tree": func(path string) error {
			return os.Rename(filepath.Join(path, "a", strings.Repeat("d/", 3)+"d"), filepath.Join(path, "d"))
		},
		"an entry that vanishes": func(path string) error {
			return os.RemoveAll(filepath.Join(path, "a", "sub"))
		},
		"a directory that becomes a file": func(path string) error {
			if err := os.RemoveAll(filepath.Join(path, "a", "sub")); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(path, "a", "sub"), nil, 0o666)
		},
	} {
		t.Run(name, func(t *testing.T) {
			interrupted := 0
			for at := 2; at < 200; at++ {
				parent, err := os.MkdirTemp(dir, "")
				require.NoError(t, err)
				path := filepath.Join(parent, "volume")
				write(t, filepath.Join(path, "a", strings.Repeat("d/", 36), "file"))
				write(t, filepath.Join(path, "a", "sub", "file0"))
				write(t, filepath.Join(path, "a", "sub", "sub", "file0"))
				write(t, filepath.Join(path, "other", "file0"))
				require.NoError(t, os.Symlink(relative(t, path, target), filepath.Join(path, "link")))
				require.NoError(t, os.Symlink(relative(t, parent, target), filepath.Join(parent, "link")))
				calls := 0
				ctx := &hooked{Context: t.Context(), hook: func(n int) error {
					if calls = n; n == at && disturb(path) == nil {
						interrupted++
					}
					return nil
				}}
				require.NoError(t, removal.All(ctx, path), "at call %d", at)
				_, err = os.Lstat(path)
				require.ErrorIs(t, err, os.ErrNotExist, "at call %d", at)
				check()
				require.NoError(t, os.RemoveAll(filepath.Join(elsewhere, "d")))
				require.NoError(t, os.RemoveAll(filepath.Join(target, "d")))
				if calls < at {
					break
				}
			}
			assert.Positive(t, interrupted)
		})
	}
}

// relative returns what a link in a directory has to hold to lead to target without leaving the file system on the way.
func relative(t *testing.T, in, target string) string {
	t.Helper()
	rel, err := filepath.Rel(in, target)
	require.NoError(t, err)
	return rel
}

func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// quickDir returns a directory on a tmpfs where that can be had: what makes many trees takes a tenth of the time there.
func quickDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if os.Geteuid() == 0 {
		mountns.RequirePrivate(t)
		mount(t, "tmpfs", dir, "tmpfs", 0)
	}
	return dir
}
