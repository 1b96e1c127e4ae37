// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/filesystem"
	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
)

// mountDevice mounts the device of a volume, for the time of the test.
func mountDevice(t *testing.T, p *Plugin, spec *volume.Spec) error {
	t.Helper()
	d := deviceMounter{p}
	path, err := d.DeviceMountPath(spec)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.UnmountDevice(context.Background(), path)) })
	return d.MountDevice(t.Context(), spec, "", path, volume.DeviceMountOptions{})
}

func contentOf(t *testing.T, path string) filesystem.Content {
	t.Helper()
	content, err := filesystem.Probe(t.Context(), path)
	require.NoError(t, err)
	return content
}

func runProgram(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestOnlyABlankDeviceIsFormatted(t *testing.T) {
	mountns.RequirePrivate(t)
	dir := t.TempDir()
	image := func(name string) string { return newImage(t, filepath.Join(dir, name), 64<<20) }
	damaged := image("damaged")
	runProgram(t, "mkfs.ext4", "-q", damaged)
	overwrite(t, damaged, 0, make([]byte, 4096))
	partitioned := image("partitioned")
	overwrite(t, partitioned, 510, []byte{0x55, 0xaa})
	text := image("text")
	overwrite(t, text, 1<<20, []byte("somebody's"))
	unreadable := image("unreadable")
	broken := attachedDevice(t, unreadable)
	require.NoError(t, os.Truncate(unreadable, 0))

	for _, test := range []struct {
		name, path string
		says       string
		kind       error
	}{
		{"an ext4 whose first block was overwritten", damaged, "ext4 backup superblock", volume.ErrInvalid},
		{"a partition table", partitioned, "boot sector", volume.ErrInvalid},
		{"data that nothing is known of", text, "data of unknown kind at offset 1048576", volume.ErrInvalid},
		{"a device that cannot be read", broken, "it is not known what is on " + broken, volume.ErrUncertain},
	} {
		t.Run(test.name, func(t *testing.T) {
			before, _ := os.ReadFile(test.path)
			err := mountDevice(t, newPlugin(t), localVolume(test.path, ""))
			require.ErrorIs(t, err, test.kind)
			assert.ErrorContains(t, err, test.says)
			after, _ := os.ReadFile(test.path)
			assert.Equal(t, before, after)
		})
	}
	blank := image("blank")
	require.NoError(t, mountDevice(t, newPlugin(t), localVolume(blank, "")))
	assert.Equal(t, "ext4", contentOf(t, blank).Type)
}

func overwrite(t *testing.T, path string, at int64, data []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(data, at)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func TestAFileSystemThatIsThereIsTakenOrRefused(t *testing.T) {
	mountns.RequirePrivate(t)
	image := newImage(t, filepath.Join(t.TempDir(), "image"), 320<<20)
	runProgram(t, "mkfs.xfs", "-q", image)
	before := contentOf(t, image)
	err := mountDevice(t, newPlugin(t), localVolume(image, "ext4"))
	require.ErrorIs(t, err, volume.ErrInvalid)
	assert.ErrorContains(t, err, "has the file system xfs, and local.fsType asks for ext4")
	require.NoError(t, mountDevice(t, newPlugin(t), localVolume(image, "")))
	assert.Equal(t, before, contentOf(t, image))
}

func TestAReadOnlyDeviceIsNotFormatted(t *testing.T) {
	mountns.RequirePrivate(t)
	spec := localVolume(newImage(t, filepath.Join(t.TempDir(), "image"), 64<<20), "")
	for _, options := range [][]string{{"ro"}, {"noatime,ro"}, {"rw", "ro"}} { // Kubernetes joins them
		spec.PersistentVolume.Spec.MountOptions = options
		err := mountDevice(t, newPlugin(t), spec)
		require.ErrorIs(t, err, volume.ErrInvalid)
		assert.ErrorContains(t, err, "to be mounted read-only, so none is made")
		assert.True(t, contentOf(t, spec.PersistentVolume.Spec.Local.Path).Blank)
	}
}

func TestADamagedFileSystemIsRepairedOrRefused(t *testing.T) {
	mountns.RequirePrivate(t)
	dir := t.TempDir()
	dirty := newImage(t, filepath.Join(dir, "dirty"), 64<<20)
	runProgram(t, "mkfs.ext4", "-q", dirty)
	runProgram(t, "debugfs", "-w", "-R", "ssv state 2", dirty) // it has errors
	require.NoError(t, mountDevice(t, newPlugin(t), localVolume(dirty, "")))

	broken := newImage(t, filepath.Join(dir, "broken"), 64<<20)
	runProgram(t, "mkfs.ext4", "-q", broken)
	runProgram(t, "debugfs", "-w", "-R", "clri <2>", broken) // no root directory
	runProgram(t, "debugfs", "-w", "-R", "ssv state 2", broken)
	err := mountDevice(t, newPlugin(t), localVolume(broken, ""))
	require.ErrorIs(t, err, volume.ErrInvalid)
	assert.ErrorContains(t, err, "is damaged, and is not mounted")
	assert.ErrorContains(t, err, "e2fsck "+broken, "the loop device is gone by the time somebody reads it")
	assert.NotContains(t, err.Error(), "/dev/loop")
}

func TestADeviceThatSomebodyUsesIsNotFormatted(t *testing.T) {
	mountns.RequirePrivate(t)
	device := attachedDevice(t, newImage(t, filepath.Join(t.TempDir(), "image"), 64<<20))
	held, err := os.OpenFile(device, os.O_RDONLY|unix.O_EXCL, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = held.Close() })
	err = mountDevice(t, newPlugin(t), localVolume(device, ""))
	require.ErrorIs(t, err, volume.ErrInUse)
	assert.ErrorContains(t, err, "somebody uses it")
	assert.True(t, contentOf(t, device).Blank)
}
