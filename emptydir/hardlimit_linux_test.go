// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/mount-utils"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/internal/loopdev"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// limited is a source of which the kernel enforces the limit, by an image: the file system of these tests is a tmpfs, which has no
// project quotas.
var limited = v1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("2Mi")), Mode: ptr.To[int32](0o750)}

func newLimited(t *testing.T, source v1.EmptyDirVolumeSource, options Options) *fixture {
	begin(t)
	dir := t.TempDir()
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(dir, 0)) })
	f := newFixture(t, source)
	f.host.Root = filepath.Join(dir, "root")
	f.path = f.host.PodVolumeDir(f.pod.UID, pluginName, f.spec.Name())
	options.HardLimits = true
	f.restart(options)
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		detach(f.path) // and the loop device with it
		for _, device := range f.devices() {
			assert.NoError(t, loopdev.Detach(t.Context(), device))
		}
	})
	return f
}

func (f *fixture) image() string { return imagePath(f.path) }

func (f *fixture) devices() []loopdev.Device {
	id, err := loopdev.FileIDOf(f.image())
	if err != nil {
		return nil
	}
	devices, err := loopdev.Find(f.Context(), id)
	require.NoError(f, err)
	return devices
}

// tearDownLimited takes the volume away and finds nothing left of it, nor of its image.
func (f *fixture) tearDownLimited() {
	f.Helper()
	f.tearDown()
	f.wantAbsent(f.image())
	entries, err := os.ReadDir(filepath.Dir(f.path))
	require.NoError(f, err)
	assert.Empty(f, entries)
}

func (f *fixture) wantContent(name, want string) {
	f.Helper()
	content, err := os.ReadFile(filepath.Join(f.path, name))
	require.NoError(f, err)
	assert.Equal(f, want, string(content))
}

func TestConformanceWithHardLimits(t *testing.T) {
	volumetest.Run(t, volumetest.Config{
		New: func() volume.VolumePlugin { return New(Options{HardLimits: true}) },
		Cases: []volumetest.Case{
			{Name: "directory with a limit", Spec: newSpec(v1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("4Mi"))}), Mounts: true},
			{Name: "directory without a limit", Spec: newSpec(v1.EmptyDirVolumeSource{})},
			{Name: "memory", Spec: newSpec(v1.EmptyDirVolumeSource{Medium: "Memory"}), Mounts: true},
		},
	})
}

func TestAHardLimitIsEnforcedAtOnce(t *testing.T) {
	f := newLimited(t, limited, Options{NoExec: true})
	f.wantPresence(volume.Absent)
	require.NoError(t, f.setUpWith(volume.SetUpOptions{FSGroup: ptr.To[int64](54321)}))
	f.wantPresence(volume.Present)
	stat := statOf(t, f.path)
	assert.EqualValues(t, 0o2770, stat.Mode&0o7777)
	assert.EqualValues(t, 54321, stat.Gid)
	entries, err := os.ReadDir(f.path)
	require.NoError(t, err)
	assert.Empty(t, entries)
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(f.path, &fs))
	assert.NotZero(t, fs.Flags&unix.ST_NOEXEC)

	require.NoError(t, os.WriteFile(filepath.Join(f.path, "fits"), make([]byte, 2<<20), 0o600))
	require.ErrorIs(t, os.WriteFile(filepath.Join(f.path, "too much"), make([]byte, 1<<20), 0o600), unix.ENOSPC)
	metrics := f.metrics()
	assert.EqualValues(t, 2<<20, metrics.Limit)
	assert.True(t, metrics.LimitEnforced)
	assert.EqualValues(t, 3, metrics.InodesUsed, "the directory and two files")
	assert.GreaterOrEqual(t, metrics.Used, int64(2<<20))
	assert.Less(t, metrics.Used, int64(3<<20))
	f.tearDownLimited()
	f.tearDownLimited()
}

func TestAVolumeWithAHardLimitIsWhatItWasAfterARestartAndAReboot(t *testing.T) {
	f := newLimited(t, limited, Options{})
	f.setUp()
	f.write(f.path, "file")
	before := f.devices()
	require.Len(t, before, 1)
	f.restart(Options{HardLimits: true})
	f.wantPresence(volume.Present)
	f.setUp()
	assert.Equal(t, before, f.devices())

	for name, options := range map[string]Options{"the same": {HardLimits: true}, "others": {}} {
		detach(f.path) // as a reboot does
		require.Empty(t, f.devices(), name)
		f.restart(options)
		f.wantPresence(volume.Absent)
		f.setUp()
		f.wantPresence(volume.Present)
		f.wantContent("file", "content")
		metrics := f.metrics()
		assert.True(t, metrics.LimitEnforced, name)
		assert.EqualValues(t, 2<<20, metrics.Limit, name)
	}
	detach(f.path)
	require.NoError(t, os.Remove(f.path)) // by hand
	f.restart(Options{HardLimits: true})
	f.setUp()
	f.wantContent("file", "content")
	assert.EqualValues(t, 0o750, statOf(t, f.path).Mode&0o7777)
	f.restart(Options{}) // what takes it away need not know
	f.tearDownLimited()
}

func TestTearDownTakesAnImageAwayThatIsNotMounted(t *testing.T) {
	f := newLimited(t, limited, Options{})
	f.setUp()
	detach(f.path)
	f.tearDownLimited()

	f.setUp()
	detach(f.path)
	require.NoError(t, os.Remove(f.path))
	f.tearDownLimited()

	f.setUp()
	detach(f.path)
	require.NoError(t, os.Rename(f.image(), f.image()+".new")) // as it is before it is complete
	f.tearDownLimited()
}

func TestAVolumeWithoutALimitGetsItOnlyWhileItIsEmpty(t *testing.T) {
	f := newLimited(t, limited, Options{})
	f.restart(Options{})
	f.setUp()
	f.write(f.path, "file")
	f.restart(Options{HardLimits: true})
	err := f.trySetUp()
	require.ErrorIs(t, err, volume.ErrInUse)
	assert.ErrorContains(t, err, f.path)
	f.wantContent("file", "content")

	require.NoError(t, os.Remove(filepath.Join(f.path, "file")))
	f.setUp()
	f.wantPresence(volume.Present)
	assert.Len(t, f.devices(), 1)
	f.tearDownLimited()
}

func TestWhatIsMountedOnAVolumeWithAHardLimitIsNamed(t *testing.T) {
	f := newLimited(t, limited, Options{})
	f.setUp()
	f.write(f.path, "file")
	require.NoError(t, unix.Mount("foreign", f.path, "ramfs", 0, ""))
	f.wantPresence(volume.Unknown)
	require.ErrorIs(t, f.trySetUp(), volume.ErrInUse)
	require.ErrorIs(t, f.tryTearDown(), volume.ErrInUse)
	require.NoError(t, unix.Unmount(f.path, 0))
	f.wantContent("file", "content")

	open, err := os.Open(filepath.Join(f.path, "file"))
	require.NoError(t, err)
	err = f.tryTearDown()
	require.ErrorIs(t, err, volume.ErrInUse)
	assert.ErrorContains(t, err, f.path)
	f.wantContent("file", "content")
	require.NoError(t, open.Close())
	f.tearDownLimited()
}

func TestAMounterThatOnlyKeepsATableCannotLimit(t *testing.T) {
	begin(t)
	f := newFixtureWith(t, limited, newPod(), mount.NewFakeMounter(nil))
	f.host.Root = f.TempDir()
	require.NoError(t, unix.Mount("tmpfs", f.host.Root, "tmpfs", 0, ""))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(f.host.Root, 0)) })
	f.path = f.host.PodVolumeDir(f.pod.UID, pluginName, f.spec.Name())
	f.restart(Options{HardLimits: true})
	require.ErrorIs(t, f.trySetUp(), volume.ErrNotSupported)
	require.NoError(t, f.tryTearDown())
	f.wantAbsent(f.image())
}
