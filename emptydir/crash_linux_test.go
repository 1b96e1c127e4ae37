// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/volume"
)

// halfStates are what a crash, or somebody's hands, may have left where the volume is made and where it will be.
var halfStates = map[string]func(f *fixture){
	"no directory": func(*fixture) {},
	"the directory of the plugin only": func(f *fixture) {
		require.NoError(f, os.MkdirAll(filepath.Dir(f.path), 0o750))
	},
	"a hidden directory": func(f *fixture) {
		require.NoError(f, os.MkdirAll(hiddenPath(f.path), 0o700))
	},
	"a hidden directory with another owner": func(f *fixture) {
		require.NoError(f, os.MkdirAll(hiddenPath(f.path), 0o700))
		if os.Geteuid() == 0 {
			require.NoError(f, os.Chown(hiddenPath(f.path), 1234, 1234))
		}
		require.NoError(f, unix.Chmod(hiddenPath(f.path), 0o3000))
	},
	"a hidden directory with files": func(f *fixture) {
		require.NoError(f, os.MkdirAll(filepath.Join(hiddenPath(f.path), "dir"), 0o700))
		f.write(hiddenPath(f.path), "dir", "file")
	},
	"a hidden file": func(f *fixture) {
		require.NoError(f, os.MkdirAll(filepath.Dir(f.path), 0o750))
		f.write(hiddenPath(f.path))
	},
	"a hidden symlink": func(f *fixture) {
		require.NoError(f, os.MkdirAll(filepath.Dir(f.path), 0o750))
		require.NoError(f, os.Symlink(f.host.Root, hiddenPath(f.path)))
	},
}

// halfMounts are those that need root.
var halfMounts = map[string]func(f *fixture){
	"a hidden tmpfs": func(f *fixture) {
		f.makeHiddenMountPoint()
		f.mountTmpfs(hiddenPath(f.path))
	},
	"a hidden hugetlbfs and a bare mount point": func(f *fixture) {
		f.makeHiddenMountPoint()
		require.NoError(f, unix.Mount("hugetlbfs", hiddenPath(f.path), "hugetlbfs", 0, "pagesize=2M,mode=0777"))
		f.makeMountPointOnly()
	},
	"a bare mount point": (*fixture).makeMountPointOnly,
	"a bare mount point with a file": func(f *fixture) {
		f.makeMountPointOnly()
		if f.spec.Volume.EmptyDir.Medium != "" {
			f.write(f.path, "dropped")
		}
	},
}

func (f *fixture) makeHiddenMountPoint() {
	require.NoError(f, makeMountPoint(hiddenPath(f.path)))
}

// makeMountPointOnly makes the directory of a volume that is a mount; that of another one is never half made.
func (f *fixture) makeMountPointOnly() {
	if f.spec.Volume.EmptyDir.Medium != "" {
		f.makeVolumeDir()
	}
}

func TestSetUpAndTearDownGoOnFromAnyHalfState(t *testing.T) {
	for _, medium := range []v1.StorageMedium{"", "Memory", "HugePages"} {
		for states, mounts := range map[*map[string]func(*fixture)]bool{&halfStates: medium != "", &halfMounts: true} {
			for state, make := range *states {
				t.Run(string(medium)+" "+state, func(t *testing.T) {
					if mounts {
						begin(t)
					}
					source := v1.EmptyDirVolumeSource{Medium: medium, Mode: ptr.To[int32](0o755)}
					f := newFixture(t, source)
					make(f)
					f.wantPresence(volume.Absent)
					f.tearDown()

					make(f)
					f.setUp()
					f.wantPresence(volume.Present)
					stat := statOf(t, f.path)
					assert.EqualValues(t, 0o755, stat.Mode&0o7777)
					assert.EqualValues(t, os.Getegid(), stat.Gid)
					entries, err := os.ReadDir(f.path)
					require.NoError(t, err)
					assert.Empty(t, entries)
					f.tearDown()

					if os.Geteuid() == 0 {
						make(f)
						require.NoError(t, f.setUpWith(volume.SetUpOptions{FSGroup: ptr.To[int64](54321)}))
						f.wantPresence(volume.Present)
						stat = statOf(t, f.path)
						assert.EqualValues(t, 0o2775, stat.Mode&0o7777)
						assert.EqualValues(t, 54321, stat.Gid)
						f.tearDown()
					}
				})
			}
		}
	}
}

func TestADirectoryIsNotReplacedByAnotherThatWasMadeForIt(t *testing.T) {
	dir := t.TempDir()
	made, there := filepath.Join(dir, "made"), filepath.Join(dir, "there")
	require.NoError(t, os.Mkdir(made, 0o755))
	require.NoError(t, os.Mkdir(there, 0o700))
	before := statOf(t, there)
	require.ErrorIs(t, renameNew(made, there), fs.ErrExist)
	assert.Equal(t, before, statOf(t, there))
	require.NoError(t, renameNew(made, filepath.Join(dir, "new")))
	assert.NoDirExists(t, made)
}

func TestAnythingButADirectoryInThePlaceOfTheVolumeIsNamed(t *testing.T) {
	f := newFixture(t, v1.EmptyDirVolumeSource{})
	require.NoError(t, os.MkdirAll(filepath.Dir(f.path), 0o750))
	f.write(f.path)
	err := f.trySetUp()
	require.ErrorIs(t, err, volume.ErrInUse)
	assert.ErrorContains(t, err, f.path)
	f.wantPresence(volume.Unknown)
	f.tearDown()
	f.setUp()
	f.tearDown()
}

func TestAFileInThePlaceOfAParentIsAnError(t *testing.T) {
	f := newFixture(t, v1.EmptyDirVolumeSource{})
	parent := filepath.Dir(f.path)
	require.NoError(t, os.MkdirAll(filepath.Dir(parent), 0o750))
	f.write(parent)
	require.ErrorIs(t, f.trySetUp(), unix.ENOTDIR)
	require.NoError(t, os.Remove(parent))
	f.setUp()
	f.tearDown()
}

func TestADiskThatIsFullIsExhausted(t *testing.T) {
	begin(t)
	for _, medium := range []v1.StorageMedium{"", "Memory"} {
		t.Run(string(medium), func(t *testing.T) {
			f := newFixture(t, v1.EmptyDirVolumeSource{Medium: medium})
			require.NoError(t, os.Mkdir(f.host.Root, 0o755))
			require.NoError(t, unix.Mount("disk", f.host.Root, "tmpfs", 0, "nr_inodes=5"))
			defer f.unmount(f.host.Root)
			err := f.trySetUp()
			require.ErrorIs(t, err, volume.ErrExhausted)
			require.ErrorIs(t, err, unix.ENOSPC)
			assert.ErrorContains(t, err, f.host.Root)
			f.tearDown()
		})
	}
}
