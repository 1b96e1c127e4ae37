// SPDX-License-Identifier: Apache-2.0

package subpath_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/internal/subpath"
)

func TestOpenReturnsWhatTheSubPathNames(t *testing.T) {
	volume, _ := begin(t)
	write(t, filepath.Join(volume, "d/e/file"), "")
	require.NoError(t, unix.Mkfifo(filepath.Join(volume, "d/fifo"), 0o600))
	link(t, "e", filepath.Join(volume, "d/relative"))
	link(t, "../../d/./e/../e", filepath.Join(volume, "d/e/up"))
	link(t, volume+"/d/e", filepath.Join(volume, "absolute"))
	link(t, volume, filepath.Join(volume, "d/root"))
	link(t, "absolute/up/../relative/file", filepath.Join(volume, "chain"))
	other := filepath.Join(t.TempDir(), "link to the volume")
	link(t, volume, other)
	link(t, other+"/d/e", filepath.Join(volume, "by the other path"))
	mkdir(t, filepath.Join(volume, "mounted"))
	mount(t, "tmpfs", filepath.Join(volume, "mounted"), "tmpfs", 0)
	write(t, filepath.Join(volume, "mounted/file"), "")
	before := tree(t, volume)

	for name, test := range map[string]struct{ subPath, want string }{
		"a directory":                            {"d/e", "d/e"},
		"the volume itself":                      {".", "."},
		"a path that is not clean":               {"d//./e/", "d/e"},
		"a file":                                 {"d/e/file", "d/e/file"},
		"a file with a slash behind it":          {"d/e/file/", "d/e/file"},
		"a pipe, which is not waited for":        {"d/fifo", "d/fifo"},
		"a relative link":                        {"d/relative", "d/e"},
		"below a relative link":                  {"d/relative/file", "d/e/file"},
		"a link that goes up inside":             {"d/e/up/file", "d/e/file"},
		"an absolute link inside":                {"absolute/file", "d/e/file"},
		"an absolute link to the root":           {"d/root/d", "d"},
		"an absolute link to the root, at last":  {"d/root", "."},
		"a chain of links":                       {"chain", "d/e/file"},
		"what is mounted in the volume":          {"mounted", "mounted"},
		"below what is mounted":                  {"mounted/file", "mounted/file"},
		"a link by the volume's path as given":   {"by the other path/file", "d/e/file"},
		"an absolute link, again, to a file":     {"absolute/up/file", "d/e/file"},
		"a link by the volume's path, resolved ": {"absolute", "d/e"},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := subpath.Open(t.Context(), other, test.subPath)
			require.NoError(t, err)
			defer file.Close()
			assert.True(t, sameFile(t, filepath.Join(volume, test.want), proc(file)))
			flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFL, 0)
			require.NoError(t, err)
			assert.NotZero(t, flags&unix.O_PATH)
		})
	}
	assert.Equal(t, before, tree(t, volume), "nothing is made")
}

func TestOpenRefusesWhatIsNotInTheVolume(t *testing.T) {
	volume, _ := begin(t)
	outside := filepath.Dir(volume)
	mkdir(t, filepath.Join(outside, "secret"))
	mkdir(t, volume+"-evil")
	write(t, filepath.Join(volume, "file"), "content")
	link(t, "/etc", filepath.Join(volume, "to etc"))
	link(t, "..", filepath.Join(volume, "up"))
	link(t, "sub/../../secret", filepath.Join(volume, "far up"))
	link(t, volume+"-evil", filepath.Join(volume, "similar"))
	link(t, volume+"/../secret", filepath.Join(volume, "in and out"))
	link(t, "to etc", filepath.Join(volume, "to the link"))
	link(t, "nothing", filepath.Join(volume, "dangling"))
	link(t, volume+"/nothing/below", filepath.Join(volume, "dangling and absolute"))
	link(t, "circle", filepath.Join(volume, "circle"))
	link(t, volume+"/round", filepath.Join(volume, "round"))
	link(t, "file", filepath.Join(volume, "to the file"))
	mkdir(t, filepath.Join(volume, "sub"))
	before := tree(t, outside)

	type test struct {
		subPath string
		kind    error
		says    string
	}
	tests := map[string]test{
		"an absolute link":                        {"to etc", subpath.ErrOutside, `"to etc" is a symbolic link to "/etc"`},
		"below an absolute link":                  {"to etc/passwd", subpath.ErrOutside, `to "/etc"`},
		"what is missing below an absolute link":  {"to etc/missing", subpath.ErrOutside, `to "/etc"`},
		"a link that goes up":                     {"up/secret", subpath.ErrOutside, "above the volume's root"},
		"a link that goes up, and ends there":     {"up", subpath.ErrOutside, "above the volume's root"},
		"what is missing below one that goes up":  {"up/missing", subpath.ErrOutside, "above the volume's root"},
		"a link that goes up far in it":           {"far up", subpath.ErrOutside, "above the volume's root"},
		"a link to a path that begins like it":    {"similar", subpath.ErrOutside, "-evil"},
		"an absolute link that goes in and out":   {"in and out", subpath.ErrOutside, "above the volume's root"},
		"a link to a link":                        {"to the link", subpath.ErrOutside, `to "/etc"`},
		"a link to nothing":                       {"dangling", fs.ErrNotExist, `leads to "nothing", which does not exist`},
		"below a link to nothing":                 {"dangling/below", fs.ErrNotExist, `leads to "nothing"`},
		"an absolute link to nothing":             {"dangling and absolute", fs.ErrNotExist, `leads to "nothing"`},
		"a link to itself":                        {"circle", subpath.ErrInvalid, "in a circle"},
		"an absolute link to itself":              {"round", subpath.ErrInvalid, "more than 40"},
		"below a file":                            {"file/below", subpath.ErrInvalid, "not a directory"},
		"below a file that is found by a link":    {"to the file/below", subpath.ErrInvalid, "not a directory"},
		"below a file, behind an absolute detour": {"missing/../file", subpath.ErrInvalid, `".."`},
	}
	for name, u := range unusable {
		tests[name] = test{u.path, subpath.ErrInvalid, u.says}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := subpath.Open(t.Context(), volume, test.subPath)
			require.ErrorIs(t, err, test.kind)
			assert.ErrorContains(t, err, test.says)
			for _, other := range []error{subpath.ErrInvalid, subpath.ErrOutside, fs.ErrNotExist} {
				assert.Equal(t, other == test.kind, errors.Is(err, other), "%v", other)
			}
		})
	}
	assert.Equal(t, before, tree(t, outside), "nothing is made")
}

func TestOpenFollowsNoLinkOfProcfs(t *testing.T) {
	for _, path := range []string{"self/root", "self/root/etc", "self/cwd"} {
		_, err := subpath.Open(t.Context(), "/proc", path)
		assert.ErrorIs(t, err, subpath.ErrInvalid, path)
	}
}

func TestWhereNothingCanBeMadeTheErrorSaysSo(t *testing.T) {
	_, err := subpath.Open(t.Context(), "/proc", "missing/directory")
	require.ErrorIs(t, err, fs.ErrNotExist)
	assert.ErrorContains(t, err, "cannot be made")
}

func TestAVolumeThatIsAFileHasNoSubPaths(t *testing.T) {
	_, err := subpath.Open(t.Context(), write(t, filepath.Join(t.TempDir(), "volume"), ""), "a")
	require.ErrorIs(t, err, subpath.ErrInvalid)
	assert.ErrorContains(t, err, "not a directory")
	_, err = subpath.Open(t.Context(), filepath.Join(t.TempDir(), "volume"), "a")
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

func TestMissingDirectoriesHaveThePermissionsOfTheRoot(t *testing.T) {
	volume, _ := begin(t)
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	for name, test := range map[string]struct{ root, want fs.FileMode }{
		"open to all":      {0o777, 0o777},
		"of a group":       {0o775 | fs.ModeSetgid, 0o775 | fs.ModeSetgid},
		"with sticky bit":  {0o777 | fs.ModeSticky, 0o777 | fs.ModeSticky},
		"closed to others": {0o700, 0o700},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.Chown(volume, 0, 4321))
			require.NoError(t, os.Chmod(volume, test.root))
			file, err := subpath.Open(t.Context(), volume, name+"/b/c")
			require.NoError(t, err)
			defer file.Close()
			assert.True(t, sameFile(t, filepath.Join(volume, name, "b/c"), proc(file)))
			for _, made := range []string{name, name + "/b", name + "/b/c"} {
				stat, err := os.Lstat(filepath.Join(volume, made))
				require.NoError(t, err)
				assert.Equal(t, test.want|fs.ModeDir, stat.Mode(), made)
				group := uint32(0)
				if test.root&fs.ModeSetgid != 0 {
					group = 4321
				}
				var own unix.Stat_t
				require.NoError(t, unix.Lstat(filepath.Join(volume, made), &own))
				assert.Equal(t, group, own.Gid, made)
			}
		})
	}
	umask := unix.Umask(0o077)
	assert.Equal(t, 0o077, umask, "the process keeps its umask")
}

func TestMissingDirectoriesAreMadeBelowALinkAndWhereSomeExist(t *testing.T) {
	volume, _ := begin(t)
	mkdir(t, filepath.Join(volume, "d"))
	link(t, volume+"/d", filepath.Join(volume, "absolute"))
	link(t, "d", filepath.Join(volume, "relative"))
	for subPath, want := range map[string]string{
		"d/new":          "d/new",
		"absolute/a/b":   "d/a/b",
		"relative/c":     "d/c",
		"x//y/./z/":      "x/y/z",
		"relative/e/f/g": "d/e/f/g",
	} {
		file, err := subpath.Open(t.Context(), volume, subPath)
		require.NoError(t, err, subPath)
		assert.True(t, sameFile(t, filepath.Join(volume, want), proc(file)), subPath)
		file.Close()
	}
}

func TestManyMayMakeTheSameDirectoryAtOnce(t *testing.T) {
	volume, _ := begin(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			file, err := subpath.Open(t.Context(), volume, "a/b/c/d/e")
			if assert.NoError(t, err) {
				file.Close()
			}
		})
	}
	wg.Wait()
}

func TestAMissingDirectoryOfAReadOnlyVolumeIsNamed(t *testing.T) {
	volume, subpaths := begin(t)
	mount(t, "tmpfs", volume, "tmpfs", 0)
	write(t, filepath.Join(volume, "there/file"), "content")
	require.NoError(t, unix.Mount("", volume, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))

	_, err := subpath.Open(t.Context(), volume, "there/missing")
	require.ErrorIs(t, err, unix.EROFS)
	assert.ErrorContains(t, err, `"there/missing" does not exist, and cannot be made`)

	target := filepath.Join(subpaths, "v/c/0")
	require.NoError(t, subpath.Bind(t.Context(), volume, "there", target))
	assert.Equal(t, "content", content(t, filepath.Join(target, "file")))
	assert.ErrorIs(t, os.WriteFile(filepath.Join(target, "other"), nil, 0o600), unix.EROFS)
	require.NoError(t, subpath.Clean(t.Context(), subpaths))
}

func TestAVolumeWhoseServerIsDeadIsGivenUp(t *testing.T) {
	volume, subpaths := begin(t)
	kill := mountns.DeadFUSE(t, volume)
	why := errors.New("why")
	for name, call := range map[string]func(context.Context) error{
		"Open": func(ctx context.Context) error { _, err := subpath.Open(ctx, volume, "a"); return err },
		"Bind": func(ctx context.Context) error {
			return subpath.Bind(ctx, volume, "a", filepath.Join(subpaths, "v/c/0"))
		},
	} {
		ctx, end := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, why)
		assert.ErrorIs(t, call(ctx), why, name)
		end()
	}
	kill()
}

func proc(file *os.File) string { return filepath.Join("/proc/self/fd", strconv.Itoa(int(file.Fd()))) }

// tree lists everything beneath dir.
func tree(t *testing.T, dir string) (paths []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	}))
	return paths
}
