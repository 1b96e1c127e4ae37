// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/loopdev"
	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
)

func podNamed(uid types.UID) *v1.Pod {
	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", "web", uid
	return pod
}

// setUp makes the volume available to the pod, for the time of the test, and returns where.
func setUp(t *testing.T, p *Plugin, spec *volume.Spec, uid types.UID) string {
	t.Helper()
	m, err := p.NewMounter(spec, podNamed(uid))
	require.NoError(t, err)
	t.Cleanup(func() { tearDown(t, p, spec, uid) })
	require.NoError(t, m.SetUp(t.Context(), volume.SetUpOptions{}))
	presence, err := m.Presence(t.Context())
	require.NoError(t, err)
	require.Equal(t, volume.Present, presence)
	return m.Path()
}

func tearDown(t *testing.T, p *Plugin, spec *volume.Spec, uid types.UID) {
	t.Helper()
	u, err := p.NewUnmounter(spec.Name(), uid)
	require.NoError(t, err)
	require.NoError(t, u.TearDown(context.Background(), volume.TearDownOptions{}))
}

func loopsOf(t *testing.T, path string) []loopdev.Device {
	t.Helper()
	id, err := loopdev.FileIDOf(path)
	require.NoError(t, err)
	found, err := loopdev.Find(t.Context(), id)
	require.NoError(t, err)
	return found
}

func TestAWriteFailsWhereverOneSaysReadOnly(t *testing.T) {
	mountns.RequirePrivate(t)
	dir := t.TempDir()
	directory := filepath.Join(dir, "directory")
	require.NoError(t, os.Mkdir(directory, 0o777))
	image := newImage(t, filepath.Join(dir, "image"), 64<<20)
	runProgram(t, "mkfs.ext4", "-q", image)
	for _, path := range []string{directory, image} {
		for _, pv := range []string{"", "ro", "ReadOnlyMany"} {
			for _, claim := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, volume %q, claim %v", filepath.Base(path), pv, claim), func(t *testing.T) {
					p, spec := newPlugin(t), localVolume(path, "")
					spec.ReadOnly = claim
					switch pv {
					case "ro":
						spec.PersistentVolume.Spec.MountOptions = []string{"ro"}
					case "ReadOnlyMany":
						spec.PersistentVolume.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany}
					}
					require.NoError(t, mountDevice(t, p, spec))
					err := os.WriteFile(filepath.Join(setUp(t, p, spec, "uid"), "file"), nil, 0o600)
					if claim || pv != "" {
						require.ErrorIs(t, err, syscall.EROFS)
					} else {
						require.NoError(t, err)
					}
				})
			}
		}
	}
}

func TestAPodThatOnlyReadsLeavesTheDeviceWritableForOthers(t *testing.T) {
	mountns.RequirePrivate(t)
	p, reader := newPlugin(t), localVolume(newImage(t, filepath.Join(t.TempDir(), "image"), 64<<20), "")
	writer := *reader
	reader.ReadOnly = true
	require.NoError(t, mountDevice(t, p, reader))
	read, written := setUp(t, p, reader, "reader"), setUp(t, p, &writer, "writer")
	require.ErrorIs(t, os.WriteFile(filepath.Join(read, "file"), nil, 0o600), syscall.EROFS)
	require.NoError(t, os.WriteFile(filepath.Join(written, "file"), []byte("seen"), 0o600))
	content, err := os.ReadFile(filepath.Join(read, "file"))
	require.NoError(t, err)
	assert.Equal(t, "seen", string(content))
}

func TestAPathLeadsThroughSymbolicLinks(t *testing.T) {
	mountns.RequirePrivate(t)
	dir := t.TempDir()
	device := attachedDevice(t, newImage(t, filepath.Join(dir, "image"), 64<<20))
	link := filepath.Join(dir, "by-id")
	require.NoError(t, os.Symlink(device, link))
	p, spec := newPlugin(t), localVolume(link, "")
	require.NoError(t, mountDevice(t, p, spec))
	require.NoError(t, mountDevice(t, p, spec), "it is found again")
	require.NoError(t, os.WriteFile(filepath.Join(setUp(t, p, spec, "uid"), "file"), nil, 0o600))
	assert.Equal(t, "ext4", contentOf(t, device).Type)
}

func TestTwoVolumesOfOneFileHaveOneLoopDevice(t *testing.T) {
	mountns.RequirePrivate(t)
	image := newImage(t, filepath.Join(t.TempDir(), "image"), 64<<20)
	runProgram(t, "mkfs.ext4", "-q", image)
	p := newPlugin(t)
	var wg sync.WaitGroup
	for i := range 8 {
		spec := localVolume(image, "")
		spec.PersistentVolume.Name = fmt.Sprint("pv-", i)
		path := p.deviceMountPath(spec)
		t.Cleanup(func() { assert.NoError(t, deviceMounter{p}.UnmountDevice(context.Background(), path)) })
		wg.Go(func() {
			assert.NoError(t, deviceMounter{p}.MountDevice(t.Context(), spec, "", path, volume.DeviceMountOptions{}))
		})
	}
	wg.Wait()
	assert.Len(t, loopsOf(t, image), 1)
}

func TestTheLoopDeviceOfAFileGoesWithItsLastMount(t *testing.T) {
	mountns.RequirePrivate(t)
	p, spec := newPlugin(t), localVolume(newImage(t, filepath.Join(t.TempDir(), "image"), 64<<20), "")
	image := spec.PersistentVolume.Spec.Local.Path
	require.NoError(t, mountDevice(t, p, spec))
	setUp(t, p, spec, "uid")
	refs, err := p.DeviceMountRefs(t.Context(), p.deviceMountPath(spec))
	require.NoError(t, err)
	assert.Len(t, refs, 1)
	require.NoError(t, deviceMounter{p}.UnmountDevice(t.Context(), p.deviceMountPath(spec)))
	assert.Len(t, loopsOf(t, image), 1, "the pod has it")
	tearDown(t, p, spec, "uid")
	assert.Empty(t, loopsOf(t, image))
}

func TestWhatCannotBeServedIsRefusedByWhatItIs(t *testing.T) {
	mountns.RequirePrivate(t)
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for path, want := range map[string]struct {
		kind error
		says string
	}{
		filepath.Join(dir, "absent"): {volume.ErrNotFound, "leads to nothing"},
		pipe:                         {volume.ErrInvalid, "neither a directory, a block device nor a regular file"},
		"/dev/null":                  {volume.ErrInvalid, "neither a directory, a block device nor a regular file"},
	} {
		err := mountDevice(t, newPlugin(t), localVolume(path, ""))
		require.ErrorIs(t, err, want.kind, path)
		assert.ErrorContains(t, err, want.says, path)
		mapper, err := newPlugin(t).NewBlockVolumeMapper(rawVolume(path), podNamed("uid"))
		require.NoError(t, err)
		_, err = mapper.SetUpDevice(t.Context(), "")
		require.ErrorIs(t, err, want.kind, path)
	}
	mapper, err := newPlugin(t).NewBlockVolumeMapper(rawVolume(dir), podNamed("uid"))
	require.NoError(t, err)
	_, err = mapper.SetUpDevice(t.Context(), "")
	require.ErrorIs(t, err, volume.ErrInvalid)
	assert.ErrorContains(t, err, "is no device")

	spec := localVolume(dir, "")
	spec.PersistentVolume.Spec.MountOptions = []string{"noatime", "data=ordered"}
	err = mountDevice(t, newPlugin(t), spec)
	require.ErrorIs(t, err, volume.ErrNotSupported)
	assert.ErrorContains(t, err, `the mount option "data=ordered" has no effect on it`)
}

func TestARawFileIsTakenAwayWhateverBecameOfIt(t *testing.T) {
	mountns.RequirePrivate(t)
	for name, change := range map[string]func(t *testing.T, path string){
		"deleted":   func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
		"truncated": func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 0)) },
		"replaced": func(t *testing.T, path string) {
			require.NoError(t, os.Remove(path))
			newImage(t, path, 1<<20)
		},
	} {
		t.Run(name, func(t *testing.T) {
			image := newImage(t, filepath.Join(t.TempDir(), "image"), 1<<20)
			id, err := loopdev.FileIDOf(image)
			require.NoError(t, err)
			p, spec := newPlugin(t), rawVolume(image)
			mapper, err := p.NewBlockVolumeMapper(spec, podNamed("uid"))
			require.NoError(t, err)
			staged, err := mapper.SetUpDevice(t.Context(), "")
			require.NoError(t, err)
			change(t, image)
			mapped, err := mapper.MapPodDevice(t.Context())
			require.NoError(t, err)
			assert.Equal(t, staged, mapped)

			unmapper, err := pluginIn(t, p.host.Root).NewBlockVolumeUnmapper("pv-1", "uid")
			require.NoError(t, err)
			require.NoError(t, unmapper.UnmapPodDevice(t.Context()))
			require.NoError(t, unmapper.TearDownDevice(t.Context(), ""))
			found, err := loopdev.Find(t.Context(), id)
			require.NoError(t, err)
			assert.Empty(t, found)
		})
	}
}

func TestALoopDeviceOfSomebodyElseIsLeftAlone(t *testing.T) {
	mountns.RequirePrivate(t)
	image := newImage(t, filepath.Join(t.TempDir(), "image"), 1<<20)
	device := attachedDevice(t, image)
	mapper, err := newPlugin(t).NewBlockVolumeMapper(rawVolume(image), podNamed("uid"))
	require.NoError(t, err)
	staged, err := mapper.SetUpDevice(t.Context(), "")
	require.NoError(t, err)
	assert.Equal(t, device, staged, "there must not be two of one file")
	require.NoError(t, mapper.(volume.BlockVolumeUnmapper).TearDownDevice(t.Context(), ""))
	assert.Len(t, loopsOf(t, image), 1)
}

func TestARawFileIsTakenAwayHoweverTheRootIsSpelt(t *testing.T) {
	mountns.RequirePrivate(t)
	dir := t.TempDir()
	image := newImage(t, filepath.Join(dir, "image"), 1<<20)
	root, link := filepath.Join(dir, "root"), filepath.Join(dir, "link")
	require.NoError(t, os.Mkdir(root, 0o755))
	require.NoError(t, os.Symlink(root, link))
	mapper, err := pluginIn(t, root).NewBlockVolumeMapper(rawVolume(image), podNamed("uid"))
	require.NoError(t, err)
	_, err = mapper.SetUpDevice(t.Context(), "")
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, mapper.(volume.BlockVolumeUnmapper).TearDownDevice(context.Background(), ""))
	})
	unmapper, err := pluginIn(t, link).NewBlockVolumeUnmapper("pv-1", "uid")
	require.NoError(t, err)
	require.NoError(t, unmapper.TearDownDevice(t.Context(), ""))
	assert.Empty(t, loopsOf(t, image))
}

// TestAFileThatWasReplacedIsMapped has a process that keeps the device of the file that was there before.
func TestAFileThatWasReplacedIsMapped(t *testing.T) {
	mountns.RequirePrivate(t)
	image := newImage(t, filepath.Join(t.TempDir(), "image"), 1<<20)
	p := newPlugin(t)
	mapper, err := p.NewBlockVolumeMapper(rawVolume(image), podNamed("uid"))
	require.NoError(t, err)
	unmapper := mapper.(volume.BlockVolumeUnmapper)
	t.Cleanup(func() { assert.NoError(t, unmapper.TearDownDevice(context.Background(), "")) })
	before, err := mapper.SetUpDevice(t.Context(), "")
	require.NoError(t, err)
	held, err := os.Open(before)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, held.Close()) })
	require.NoError(t, unmapper.TearDownDevice(t.Context(), ""))
	require.NoError(t, os.Remove(image))
	newImage(t, image, 1<<20)

	staged, err := mapper.SetUpDevice(t.Context(), "")
	require.NoError(t, err)
	assert.NotEqual(t, before, staged)
	mapped, err := mapper.MapPodDevice(t.Context())
	require.NoError(t, err)
	assert.Equal(t, staged, mapped)
	assert.Equal(t, staged, loopsOf(t, image)[0].Path)
}
