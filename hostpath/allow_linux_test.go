// SPDX-License-Identifier: Apache-2.0

package hostpath_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
)

// allow returns a plugin that allows the paths.
func allow(t *testing.T, prefixes ...string) *hostpath.Plugin {
	allowed := []hostpath.AllowedPath{}
	for _, prefix := range prefixes {
		allowed = append(allowed, hostpath.AllowedPath{Prefix: prefix})
	}
	return start(t, hostpath.Options{AllowedPaths: allowed})
}

// makeHost makes a directory that looks a little like a host: data is what will be allowed, etc is not.
func makeHost(t *testing.T) (dir, data, etc string) {
	dir = t.TempDir()
	data, etc = filepath.Join(dir, "data"), filepath.Join(dir, "etc")
	for _, d := range []string{data, etc, filepath.Join(dir, "data-evil"), filepath.Join(data, "ours")} {
		require.NoError(t, os.Mkdir(d, 0o755))
	}
	return dir, data, etc
}

func TestTheAllowListRefusesWhatLeadsElsewhere(t *testing.T) {
	dir, data, etc := makeHost(t)
	require.NoError(t, os.Symlink(etc, filepath.Join(data, "absolute")))
	require.NoError(t, os.Symlink("../etc", filepath.Join(data, "relative")))
	require.NoError(t, os.Symlink("../etc/new", filepath.Join(data, "dangling")))
	require.NoError(t, os.Symlink("absolute", filepath.Join(data, "ours", "chain")))
	plugin := allow(t, data)
	for name, path := range map[string]string{
		"a link to another place":          filepath.Join(data, "absolute"),
		"a relative link":                  filepath.Join(data, "relative"),
		"through a link":                   filepath.Join(data, "absolute", "new"),
		"a link to what is not there":      filepath.Join(data, "dangling"),
		"another place":                    etc,
		"a name that begins in the same":   filepath.Join(dir, "data-evil"),
		"a new name that begins the same":  filepath.Join(dir, "data-evil-2"),
		"what is above":                    dir,
		"the root":                         "/",
		"a new directory elsewhere":        filepath.Join(etc, "new"),
		"through the root of this process": "/proc/self/root" + etc,
	} {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []v1.HostPathType{"", "none", v1.HostPathDirectory, v1.HostPathDirectoryOrCreate, v1.HostPathFileOrCreate} {
				for _, spec := range []*volume.Spec{inline(path, kind), persistent(path, kind)} {
					mounter := mounterOf(t, plugin, spec)
					err := mounter.SetUp(t.Context(), volume.SetUpOptions{})
					require.ErrorIs(t, err, volume.ErrInvalid, "type %q", kind)
					assert.ErrorContains(t, err, "not below an allowed path")
					assert.ErrorContains(t, err, data)
					answer, err := mounter.Presence(t.Context())
					require.NoError(t, err)
					assert.Equal(t, volume.Absent, answer)
				}
			}
			assert.NoFileExists(t, filepath.Join(etc, "new"))
		})
	}
	_, err := plugin.NewMounter(inline(data+"/../etc", ""), nil)
	assert.ErrorIs(t, err, volume.ErrInvalid, "a path that goes up")
}

func TestTheAllowListHandsOutThePathThatItHasChecked(t *testing.T) {
	dir, data, _ := makeHost(t)
	require.NoError(t, os.Symlink("ours", filepath.Join(data, "link")))
	require.NoError(t, os.Symlink("data/link", filepath.Join(dir, "outside")))
	plugin := allow(t, data)
	for name, test := range map[string]struct {
		path, want string
		kind       v1.HostPathType
	}{
		"the allowed path itself":          {data, data, v1.HostPathDirectory},
		"with a slash at its end":          {data + "/", data, ""},
		"a link within":                    {filepath.Join(data, "link"), filepath.Join(data, "ours"), v1.HostPathDirectory},
		"a link from outside into it":      {filepath.Join(dir, "outside"), filepath.Join(data, "ours"), ""},
		"what is not there, with no type":  {filepath.Join(data, "link", "a", "b"), filepath.Join(data, "ours", "a", "b"), ""},
		"what is created":                  {filepath.Join(data, "link", "c", "d"), filepath.Join(data, "ours", "c", "d"), v1.HostPathDirectoryOrCreate},
		"what is created, through another": {filepath.Join(dir, "outside", "e"), filepath.Join(data, "ours", "e"), v1.HostPathFileOrCreate},
	} {
		t.Run(name, func(t *testing.T) {
			mounter := mounterOf(t, plugin, inline(test.path, test.kind))
			assert.Equal(t, test.path, mounter.Path(), "before SetUp")
			require.NoError(t, mounter.SetUp(t.Context(), volume.SetUpOptions{}))
			assert.Equal(t, test.want, mounter.Path())

			again := mounterOf(t, plugin, inline(test.path, test.kind))
			answer, err := again.Presence(t.Context())
			require.NoError(t, err)
			assert.Equal(t, volume.Present, answer)
			assert.Equal(t, test.want, again.Path(), "after Presence")
		})
	}
}

func TestAnAllowedPathMayBeALink(t *testing.T) {
	dir, data, etc := makeHost(t)
	link := filepath.Join(dir, "link")
	plugin := allow(t, link)
	require.NoError(t, os.Symlink("data", link)) // after Init
	mounter := mounterOf(t, plugin, inline(filepath.Join(link, "ours"), v1.HostPathDirectory))
	require.NoError(t, mounter.SetUp(t.Context(), volume.SetUpOptions{}))
	assert.Equal(t, filepath.Join(data, "ours"), mounter.Path())
	require.NoError(t, setUp(t, plugin, filepath.Join(data, "ours"), ""), "by its other name")

	require.NoError(t, os.Remove(link))
	require.NoError(t, os.Symlink("etc", link))
	require.NoError(t, setUp(t, plugin, etc, ""), "the link is resolved each time")
	assert.ErrorIs(t, setUp(t, plugin, data, ""), volume.ErrInvalid)
}

func TestAnAllowedPathThatIsNotThereIsMade(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "not", "yet", "there")
	require.NoError(t, setUp(t, allow(t, filepath.Dir(path)), path, v1.HostPathDirectoryOrCreate))
	assert.DirExists(t, path)
}

func TestAnEmptyAllowListAllowsNothing(t *testing.T) {
	plugin := allow(t)
	for _, path := range []string{"/", t.TempDir()} {
		err := setUp(t, plugin, path, "")
		require.ErrorIs(t, err, volume.ErrInvalid)
		assert.ErrorContains(t, err, "none is allowed")
	}
}

func TestTheRootAsAllowedPathAllowsEverything(t *testing.T) {
	for _, path := range []string{"/", "/usr", t.TempDir()} {
		assert.NoError(t, setUp(t, allow(t, "/"), path, ""))
	}
}

func TestAReadOnlyAllowedPathMakesTheVolumeReadOnly(t *testing.T) {
	dir, data, etc := makeHost(t)
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink("data", link))
	plugin := start(t, hostpath.Options{AllowedPaths: []hostpath.AllowedPath{
		{Prefix: dir, ReadOnly: true},
		{Prefix: filepath.Join(link, "ours")},
	}})
	for path, want := range map[string]bool{etc: true, data: true, filepath.Join(data, "ours"): false, filepath.Join(link, "ours"): false} {
		mounter := mounterOf(t, plugin, inline(path, v1.HostPathDirectory))
		assert.True(t, mounter.Attributes().ReadOnly, "as long as it is not known")
		require.NoError(t, mounter.SetUp(t.Context(), volume.SetUpOptions{}))
		assert.Equal(t, want, mounter.Attributes().ReadOnly, path)

		spec := persistent(path, v1.HostPathDirectory)
		spec.ReadOnly = true
		mounter = mounterOf(t, plugin, spec)
		require.NoError(t, mounter.SetUp(t.Context(), volume.SetUpOptions{}))
		assert.True(t, mounter.Attributes().ReadOnly, "a claim's read-only stays")
	}
	assert.False(t, mounterOf(t, allow(t, dir), inline(data, "")).Attributes().ReadOnly)
}

func TestAnotherAllowedPathThatHangsDelaysNobody(t *testing.T) {
	_, data, _ := makeHost(t)
	dead := t.TempDir()
	mountns.DeadFUSE(t, dead)
	plugin := allow(t, filepath.Join(dead, "x"), data)
	assert.NoError(t, setUp(t, plugin, filepath.Join(data, "new"), v1.HostPathDirectoryOrCreate))
}

// TestALinkThatIsSwappedInLeadsNowhere has somebody exchange a directory with a link that leads elsewhere, as a container
// can, while directories are created below it.
func TestALinkThatIsSwappedInLeadsNowhere(t *testing.T) {
	_, data, etc := makeHost(t)
	dir, link := filepath.Join(data, "ours"), filepath.Join(data, "link")
	require.NoError(t, os.Symlink(etc, link))
	plugin := allow(t, data)

	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				assert.NoError(t, unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE))
			}
		}
	})
	created, refused := 0, 0
	for created < 100 || refused < 100 {
		kind := v1.HostPathDirectoryOrCreate
		if (created+refused)%2 == 0 {
			kind = v1.HostPathFileOrCreate
		}
		mounter := mounterOf(t, plugin, inline(filepath.Join(dir, string(kind)), kind))
		if err := mounter.SetUp(t.Context(), volume.SetUpOptions{}); err != nil {
			assert.ErrorIs(t, err, volume.ErrInvalid)
			refused++
			continue
		}
		created++
		assert.True(t, strings.HasPrefix(mounter.Path(), data+"/"), mounter.Path())
		for _, d := range []string{dir, link} { // one of them is the directory
			if real, err := os.OpenRoot(d); err == nil {
				_ = real.RemoveAll(string(kind))
				_ = real.Close()
			}
		}
	}
	close(stop)
	swapping.Wait()
	entries, err := os.ReadDir(etc)
	require.NoError(t, err)
	assert.Empty(t, entries, "what was created where the link leads")
}
