// SPDX-License-Identifier: Apache-2.0

package subpath_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/internal/subpath"
)

func TestCleanEndsWhateverStateBindWasKilledIn(t *testing.T) {
	for name, state := range map[string]func(t *testing.T, volume, subpaths string){
		"nothing was made":           func(*testing.T, string, string) {},
		"only the pod's directory":   func(t *testing.T, _, subpaths string) { mkdir(t, subpaths) },
		"only the volume's":          func(t *testing.T, _, subpaths string) { mkdir(t, filepath.Join(subpaths, "v")) },
		"only the container's":       func(t *testing.T, _, subpaths string) { mkdir(t, filepath.Join(subpaths, "v/c")) },
		"a directory not mounted on": func(t *testing.T, _, subpaths string) { mkdir(t, filepath.Join(subpaths, "v/c/0")) },
		"a file not mounted on":      func(t *testing.T, _, subpaths string) { write(t, filepath.Join(subpaths, "v/c/0"), "") },
		"unmounted by hand, in part": func(t *testing.T, volume, subpaths string) {
			bindAll(t, volume, subpaths)
			require.NoError(t, unix.Unmount(filepath.Join(subpaths, "v1/c1/1"), 0))
			require.NoError(t, unix.Unmount(filepath.Join(subpaths, "v2/c2/0"), 0))
		},
		"all mounted": bindAll,
		"a hundred mounts on one target": func(t *testing.T, volume, subpaths string) {
			bindAll(t, volume, subpaths)
			for range 99 {
				require.NoError(t, unix.Mount(volume, filepath.Join(subpaths, "v1/c1/0"), "", unix.MS_BIND, ""))
			}
		},
		"a mount of something with a mount inside": func(t *testing.T, volume, subpaths string) {
			bindAll(t, volume, subpaths)
			require.NoError(t, unix.Mount("tmpfs", filepath.Join(subpaths, "v1/c1/0/inner"), "tmpfs", 0, ""))
		},
		"a target on a server that is silent": func(t *testing.T, _, subpaths string) {
			mountns.DeadFUSE(t, mkdir(t, filepath.Join(subpaths, "v/c/0")))
		},
		"a target on a server that is disconnected": func(t *testing.T, _, subpaths string) {
			mountns.DeadFUSE(t, mkdir(t, filepath.Join(subpaths, "v/c/0")))()
		},
		"a mount on what was not empty": func(t *testing.T, volume, subpaths string) {
			bindAll(t, volume, subpaths)
			require.NoError(t, unix.Mount("tmpfs", filepath.Join(subpaths, "v1/c1/0"), "tmpfs", 0, ""))
			write(t, filepath.Join(subpaths, "v1/c1/0/file"), "content")
		},
	} {
		t.Run(name, func(t *testing.T) {
			volume, subpaths := begin(t)
			write(t, filepath.Join(volume, "d/file"), "content")
			mkdir(t, filepath.Join(volume, "d/inner"))
			state(t, volume, subpaths)
			require.NoError(t, subpath.Clean(t.Context(), subpaths))
			assert.NoDirExists(t, subpaths)
			require.NoError(t, subpath.Clean(t.Context(), subpaths), "again")
			assert.Equal(t, "content", content(t, filepath.Join(volume, "d/file")))
		})
	}
}

// bindAll binds subPaths of two volumes for two containers: a directory and a file each.
func bindAll(t *testing.T, volume, subpaths string) {
	for _, v := range []string{"v1", "v2"} {
		for _, c := range []string{"c1", "c2"} {
			for i, subPath := range []string{"d", "d/file"} {
				require.NoError(t, subpath.Bind(t.Context(), volume, subPath, filepath.Join(subpaths, v, c, strconv.Itoa(i))))
			}
		}
	}
}

func TestCleanLeavesAndReportsWhatIsNotItsOwn(t *testing.T) {
	for name, test := range map[string]struct {
		foreign func(t *testing.T, subpaths, elsewhere string)
		at      string
	}{
		"a file with content":                    {func(t *testing.T, s, _ string) { write(t, filepath.Join(s, "v1/c1/9"), "content") }, "v1/c1/9"},
		"a directory with a file":                {func(t *testing.T, s, _ string) { write(t, filepath.Join(s, "v1/c1/9/file"), "") }, "v1/c1/9"},
		"a link to a directory":                  {func(t *testing.T, s, e string) { link(t, e, filepath.Join(s, "v1/c1/9")) }, "v1/c1/9"},
		"a link to a mount":                      {func(t *testing.T, s, _ string) { link(t, "../c2/0", filepath.Join(s, "v1/c1/9")) }, "v1/c1/9"},
		"a link in place of a container":         {func(t *testing.T, s, e string) { link(t, e, filepath.Join(s, "v1/c3")) }, "v1/c3"},
		"a link in place of a volume":            {func(t *testing.T, s, e string) { link(t, e, filepath.Join(s, "v3")) }, "v3"},
		"a file in place of a volume":            {func(t *testing.T, s, _ string) { write(t, filepath.Join(s, "v3"), "") }, "v3"},
		"a mount in place of a volume":           {func(t *testing.T, s, e string) { foreignMount(t, e, filepath.Join(s, "v3")) }, "v3"},
		"a mount in place of a container":        {func(t *testing.T, s, e string) { foreignMount(t, e, filepath.Join(s, "v1/c3")) }, "v1/c3"},
		"a mount below a target that is none":    {func(t *testing.T, s, e string) { foreignMount(t, e, filepath.Join(s, "v1/c1/9/x")) }, "v1/c1/9"},
		"a mount on a target's place, on a file": {func(t *testing.T, s, e string) { foreignMount(t, e, filepath.Join(s, "v3/c/0/x/y")) }, "v3/c/0"},
	} {
		t.Run(name, func(t *testing.T) {
			volume, subpaths := begin(t)
			write(t, filepath.Join(volume, "d/file"), "content")
			elsewhere := t.TempDir()
			write(t, filepath.Join(elsewhere, "sub/sub/file"), "content")
			write(t, filepath.Join(elsewhere, "empty"), "")
			mkdir(t, filepath.Join(elsewhere, "empty directory"))
			before := tree(t, elsewhere)
			bindAll(t, volume, subpaths)
			test.foreign(t, subpaths, elsewhere)
			at := filepath.Join(subpaths, test.at)
			for range 2 {
				err := subpath.Clean(t.Context(), subpaths)
				require.ErrorContains(t, err, at)
				assert.Equal(t, before, tree(t, elsewhere))
				_, err = os.Lstat(at)
				require.NoError(t, err)
				// All else is gone.
				for dir := subpaths; dir != at; {
					entries, err := os.ReadDir(dir)
					require.NoError(t, err)
					require.Len(t, entries, 1, dir)
					dir = filepath.Join(dir, entries[0].Name())
				}
			}
		})
	}
}

// foreignMount mounts what Clean must not touch.
func foreignMount(t *testing.T, source, target string) {
	mkdir(t, target)
	mount(t, source, target, "", unix.MS_BIND)
}

func TestCleanTouchesNoMountOnTheDirectoryItself(t *testing.T) {
	volume, subpaths := begin(t)
	write(t, filepath.Join(volume, "v/c/0"), "")
	foreignMount(t, volume, subpaths)
	require.ErrorContains(t, subpath.Clean(t.Context(), subpaths), "mounted on")
	assert.FileExists(t, filepath.Join(volume, "v/c/0"))
}

func TestCleanFollowsNoLinkInPlaceOfTheDirectory(t *testing.T) {
	_, subpaths := begin(t)
	elsewhere := t.TempDir()
	write(t, filepath.Join(elsewhere, "v/c/0"), "")
	link(t, elsewhere, subpaths)
	require.ErrorContains(t, subpath.Clean(t.Context(), subpaths), "not a directory")
	assert.FileExists(t, filepath.Join(elsewhere, "v/c/0"))
}

func TestATargetInUseIsUnmountedAllTheSame(t *testing.T) {
	volume, subpaths := begin(t)
	write(t, filepath.Join(volume, "d/file"), "content")
	bindAll(t, volume, subpaths)
	file, err := os.Open(filepath.Join(subpaths, "v1/c1/0/file"))
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, subpath.Clean(t.Context(), subpaths))
	assert.NoDirExists(t, subpaths)
	data := make([]byte, 7)
	_, err = file.Read(data)
	require.NoError(t, err)
	assert.Equal(t, "content", string(data))
}

// The kubelet leaves the propagation as it is, so that its targets are peers of the volume.
func TestCleaningUpAfterTheKubeletLeavesTheVolumeItsMounts(t *testing.T) {
	volume, subpaths := begin(t)
	mount(t, "tmpfs", volume, "tmpfs", 0)
	require.NoError(t, unix.Mount("", volume, "", unix.MS_SHARED, ""))
	inner := mkdir(t, filepath.Join(volume, "d/inner"))
	target := mkdir(t, filepath.Join(subpaths, "v/c/0"))
	require.NoError(t, unix.Mount(filepath.Join(volume, "d"), target, "", unix.MS_BIND, ""))
	mount(t, "tmpfs", inner, "tmpfs", 0)
	require.True(t, mounted(t, filepath.Join(target, "inner")))
	require.NoError(t, subpath.Clean(t.Context(), subpaths))
	assert.NoDirExists(t, subpaths)
	assert.True(t, mounted(t, inner))
}

func TestCleanDoesNothingAfterTheEndOfItsContext(t *testing.T) {
	volume, subpaths := begin(t)
	write(t, filepath.Join(volume, "d/file"), "content")
	bindAll(t, volume, subpaths)
	before := tree(t, subpaths)
	why := errors.New("why")
	ctx, end := context.WithCancelCause(t.Context())
	end(why)
	require.ErrorIs(t, subpath.Clean(ctx, subpaths), why)
	assert.Equal(t, before, tree(t, subpaths))
	require.NoError(t, subpath.Clean(t.Context(), subpaths))
}
