// SPDX-License-Identifier: Apache-2.0

package subpath_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/internal/subpath"
)

func TestBindShowsADirectoryOrAFile(t *testing.T) {
	volume, subpaths := begin(t)
	write(t, filepath.Join(volume, "d/file"), "content")
	require.NoError(t, unix.Mkfifo(filepath.Join(volume, "fifo"), 0o600))
	link(t, "d", filepath.Join(volume, "link"))
	t.Chdir(volume) // a socket's path has at most 108 bytes
	socket, err := net.Listen("unix", "socket")
	require.NoError(t, err)
	defer socket.Close()
	for i, subPath := range []string{"d", "d/file", "fifo", "socket", "link", "link/file", ".", "missing/directory"} {
		target := filepath.Join(subpaths, "v", "c", string(rune('0'+i)))
		require.NoError(t, subpath.Bind(t.Context(), volume, subPath, target), subPath)
		assert.True(t, mounted(t, target), subPath)
		assert.True(t, sameFile(t, filepath.Join(volume, subPath), target), subPath)
	}
	stat, err := os.Stat(filepath.Join(subpaths, "v/c"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o750), stat.Mode().Perm())
	require.NoError(t, subpath.Clean(t.Context(), subpaths))
	assert.NoDirExists(t, subpaths)
	assert.Equal(t, "content", content(t, filepath.Join(volume, "d/file")))
}

func TestBindTwiceMakesNoMount(t *testing.T) {
	volume, subpaths := begin(t)
	write(t, filepath.Join(volume, "d/file"), "content")
	for i, subPath := range []string{"d", "d/file", "missing"} {
		target := filepath.Join(subpaths, "v", "c", string(rune('0'+i)))
		require.NoError(t, subpath.Bind(t.Context(), volume, subPath, target))
		before := mountID(t, target)
		require.NoError(t, subpath.Bind(t.Context(), volume, subPath, target))
		assert.Equal(t, before, mountID(t, target), subPath)
		require.NoError(t, unix.Unmount(target, 0))
		assert.False(t, mounted(t, target), "there was one mount only")
		require.NoError(t, subpath.Bind(t.Context(), volume, subPath, target), "after it was unmounted by hand")
		assert.NotEqual(t, before, mountID(t, target))
	}
	require.NoError(t, subpath.Clean(t.Context(), subpaths))
}

func TestATargetThatShowsSomethingElseIsReplaced(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, volume, target string){
		"the file was replaced": func(t *testing.T, volume, _ string) {
			write(t, filepath.Join(volume, "new"), "new")
			require.NoError(t, os.Rename(filepath.Join(volume, "new"), filepath.Join(volume, "it")))
		},
		"the file became a directory": func(t *testing.T, volume, _ string) {
			require.NoError(t, os.Remove(filepath.Join(volume, "it")))
			mkdir(t, filepath.Join(volume, "it"))
		},
		"the volume was mounted anew": func(t *testing.T, volume, _ string) {
			mount(t, "tmpfs", volume, "tmpfs", 0)
			write(t, filepath.Join(volume, "it"), "new")
		},
		"something is mounted on the target": func(t *testing.T, volume, target string) {
			mount(t, filepath.Join(volume, "other"), target, "", unix.MS_BIND)
			mount(t, filepath.Join(volume, "other"), target, "", unix.MS_BIND)
		},
		"the target is a directory": func(t *testing.T, _, target string) {
			require.NoError(t, unix.Unmount(target, 0))
			require.NoError(t, os.Remove(target))
			mkdir(t, target)
		},
		"the old one is in use": func(t *testing.T, volume, target string) {
			file, err := os.Open(target)
			require.NoError(t, err)
			t.Cleanup(func() { file.Close() })
			write(t, filepath.Join(volume, "new"), "new")
			require.NoError(t, os.Rename(filepath.Join(volume, "new"), filepath.Join(volume, "it")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			volume, subpaths := begin(t)
			write(t, filepath.Join(volume, "it"), "old")
			write(t, filepath.Join(volume, "other"), "other")
			target := filepath.Join(subpaths, "v/c/0")
			require.NoError(t, subpath.Bind(t.Context(), volume, "it", target))
			before := mountID(t, target)
			change(t, volume, target)
			require.NoError(t, subpath.Bind(t.Context(), volume, "it", target))
			assert.NotEqual(t, before, mountID(t, target))
			assert.True(t, sameFile(t, filepath.Join(volume, "it"), target))
			require.NoError(t, unix.Unmount(target, 0))
			assert.False(t, mounted(t, target), "the old one is gone")
			require.NoError(t, subpath.Clean(t.Context(), subpaths))
		})
	}
}

func TestWhatIsInTheWayOfATargetIsLeftAlone(t *testing.T) {
	volume, subpaths := begin(t)
	write(t, filepath.Join(volume, "d/file"), "content")
	victim := write(t, filepath.Join(t.TempDir(), "victim"), "")
	for name, test := range map[string]struct {
		subPath string
		make    func(target string)
	}{
		"a symbolic link to a file":        {"d/file", func(target string) { link(t, victim, target) }},
		"a symbolic link to a directory":   {"d", func(target string) { link(t, filepath.Dir(victim), target) }},
		"a symbolic link to nothing":       {"d", func(target string) { link(t, "nothing", target) }},
		"a file with content":              {"d", func(target string) { write(t, target, "content") }},
		"a directory that is not empty":    {"d/file", func(target string) { write(t, filepath.Join(target, "file"), "") }},
		"a directory above that is a file": {"d", func(target string) { write(t, filepath.Dir(target), "") }},
	} {
		t.Run(name, func(t *testing.T) {
			target := filepath.Join(subpaths, strings.ReplaceAll(name, " ", "-"), "c/0")
			test.make(target)
			before := tree(t, subpaths)
			err := subpath.Bind(t.Context(), volume, test.subPath, target)
			require.ErrorContains(t, err, target[:len(target)-2])
			assert.Equal(t, before, tree(t, subpaths))
			assert.False(t, mounted(t, victim))
			assert.False(t, mounted(t, filepath.Dir(victim)))
		})
	}
}

func TestARefusedSubPathMakesNoTarget(t *testing.T) {
	volume, subpaths := begin(t)
	link(t, t.TempDir(), filepath.Join(volume, "away"))
	target := filepath.Join(subpaths, "v/c/0")
	for subPath, kind := range map[string]error{"../x": subpath.ErrInvalid, "away": subpath.ErrOutside} {
		err := subpath.Bind(t.Context(), volume, subPath, target)
		require.ErrorIs(t, err, kind)
		assert.NoDirExists(t, subpaths)
	}
}

func TestWhatIsMountedInTheVolumeComesAlong(t *testing.T) {
	for name, flag := range map[string]uintptr{"private": unix.MS_PRIVATE, "shared": unix.MS_SHARED} {
		t.Run(name, func(t *testing.T) {
			volume, subpaths := begin(t)
			mount(t, "tmpfs", volume, "tmpfs", 0)
			require.NoError(t, unix.Mount("", volume, "", flag, ""))
			early, late := filepath.Join(volume, "d/early"), filepath.Join(volume, "d/late")
			for _, dir := range []string{early, late} {
				mkdir(t, dir)
			}
			mount(t, "tmpfs", early, "tmpfs", 0)
			write(t, filepath.Join(early, "file"), "content")
			target := filepath.Join(subpaths, "v/c/0")
			require.NoError(t, subpath.Bind(t.Context(), volume, "d", target))
			assert.Equal(t, "content", content(t, filepath.Join(target, "early/file")))

			mount(t, "tmpfs", late, "tmpfs", 0)
			assert.Equal(t, name == "shared", mounted(t, filepath.Join(target, "late")))

			require.NoError(t, subpath.Clean(t.Context(), subpaths))
			assert.NoDirExists(t, subpaths)
			assert.True(t, mounted(t, early), "the volume keeps what is mounted in it")
			assert.True(t, mounted(t, late))
		})
	}
}

func TestAMountAtATargetDoesNotReachTheVolume(t *testing.T) {
	volume, subpaths := begin(t)
	mount(t, "tmpfs", volume, "tmpfs", 0)
	require.NoError(t, unix.Mount("", volume, "", unix.MS_SHARED, ""))
	mkdir(t, filepath.Join(volume, "d/inner"))
	target := filepath.Join(subpaths, "v/c/0")
	require.NoError(t, subpath.Bind(t.Context(), volume, "d", target))
	mount(t, "tmpfs", filepath.Join(target, "inner"), "tmpfs", 0)
	assert.False(t, mounted(t, filepath.Join(volume, "d/inner")))
	require.NoError(t, subpath.Clean(t.Context(), subpaths))
}

func TestATargetReleasesWhatIsUnmountedFromTheVolume(t *testing.T) {
	volume, subpaths := begin(t)
	mount(t, "tmpfs", volume, "tmpfs", 0)
	require.NoError(t, unix.Mount("", volume, "", unix.MS_SHARED, ""))
	inner := mkdir(t, filepath.Join(volume, "d/inner"))
	mount(t, "tmpfs", inner, "tmpfs", 0)
	target := filepath.Join(subpaths, "v/c/0")
	require.NoError(t, subpath.Bind(t.Context(), volume, "d", target))
	require.True(t, mounted(t, filepath.Join(target, "inner")))
	require.NoError(t, unix.Unmount(inner, 0))
	assert.False(t, mounted(t, filepath.Join(target, "inner")))
	require.NoError(t, subpath.Clean(t.Context(), subpaths))
}

func TestATargetCanBeBoundRecursively(t *testing.T) {
	volume, subpaths := begin(t)
	mkdir(t, filepath.Join(volume, "d/inner"))
	mount(t, "tmpfs", filepath.Join(volume, "d/inner"), "tmpfs", 0)
	target := filepath.Join(subpaths, "v/c/0")
	require.NoError(t, subpath.Bind(t.Context(), volume, "d", target))
	container := t.TempDir()
	mount(t, target, container, "", unix.MS_BIND|unix.MS_REC)
	assert.True(t, mounted(t, filepath.Join(container, "inner")))
	require.NoError(t, subpath.Clean(t.Context(), subpaths))
	assert.True(t, mounted(t, filepath.Join(container, "inner")), "the container keeps its own view")
}

func TestATargetBelowASharedMountCanBeCleaned(t *testing.T) {
	begin(t)
	root := t.TempDir()
	mount(t, "tmpfs", root, "tmpfs", 0)
	require.NoError(t, unix.Mount("", root, "", unix.MS_SHARED, "")) // as systemd has /
	volume := mkdir(t, filepath.Join(root, "volume/d/inner"))
	mount(t, "tmpfs", volume, "tmpfs", 0)
	volume = filepath.Join(root, "volume")
	subpaths := filepath.Join(root, "volume-subpaths")
	target := filepath.Join(subpaths, "v/c/0")
	require.NoError(t, subpath.Bind(t.Context(), volume, "d", target))
	before := mountID(t, target)
	require.NoError(t, subpath.Bind(t.Context(), volume, "d", target))
	assert.Equal(t, before, mountID(t, target))
	assert.True(t, mounted(t, filepath.Join(target, "inner")))
	require.NoError(t, subpath.Clean(t.Context(), subpaths))
	assert.NoDirExists(t, subpaths)
	assert.True(t, mounted(t, filepath.Join(volume, "d/inner")))
	requireNoMountsBelow(t, subpaths)
}

func TestADeadServerAtTheTargetIsReplaced(t *testing.T) {
	volume, subpaths := begin(t)
	write(t, filepath.Join(volume, "d/file"), "content")
	for name, dead := range map[string]bool{"silent": false, "disconnected": true} {
		target := mkdir(t, filepath.Join(subpaths, "v/c", name))
		kill := mountns.DeadFUSE(t, target)
		if dead {
			kill()
		}
		require.NoError(t, subpath.Bind(t.Context(), volume, "d", target))
		assert.Equal(t, "content", content(t, filepath.Join(target, "file")))
	}
	require.NoError(t, subpath.Clean(t.Context(), subpaths))
}

func requireNoMountsBelow(t *testing.T, dir string) {
	t.Helper()
	infos, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	require.NoError(t, err)
	require.Empty(t, infos)
}
