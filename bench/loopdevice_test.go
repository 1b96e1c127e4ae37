// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/kubernetes/pkg/volume/util/volumepathhandler"

	"github.com/volumekit/volumekit/internal/loopdev"
)

func BenchmarkLoopDevice(b *testing.B) { benchmarkJobs(b, loopDeviceJobs()) }

func TestSameLoopDevice(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: loop devices cannot be attached")
	}
	theirs, ours := newImage(t), newImage(t)
	t.Cleanup(func() { detachAll(t, theirs); detachAll(t, ours) })
	handler := volumepathhandler.NewBlockVolumePathHandler()
	theirPath, err := handler.AttachFileDevice(theirs)
	require.NoError(t, err)
	handle, err := loopdev.Attach(t.Context(), ours, loopdev.Options{})
	require.NoError(t, err)
	require.NoError(t, handle.Close())

	theirDevice, ourDevice := attachedTo(t, theirs), attachedTo(t, ours)
	assert.Equal(t, theirPath, theirDevice.Path)
	assert.Equal(t, handle.Device, ourDevice)
	assert.Equal(t, attributes(t, theirDevice), attributes(t, ourDevice))
	found, err := handler.GetLoopDevice(ours)
	require.NoError(t, err, "the peer finds ours")
	assert.Equal(t, ourDevice.Path, found)

	require.NoError(t, handler.DetachFileDevice(theirs))
	require.NoError(t, loopdev.Detach(t.Context(), handle.Device))
	for _, path := range []string{theirs, ours} {
		assert.Empty(t, allAttachedTo(t, path))
	}
}

func allAttachedTo(t *testing.T, path string) []loopdev.Device {
	t.Helper()
	id, err := loopdev.FileIDOf(path)
	require.NoError(t, err)
	found, err := loopdev.Find(t.Context(), id)
	require.NoError(t, err)
	return found
}

func attachedTo(t *testing.T, path string) loopdev.Device {
	t.Helper()
	found := allAttachedTo(t, path)
	require.Len(t, found, 1)
	return found[0]
}

// attributes are those of a loop device in sysfs, but for the file.
func attributes(t *testing.T, device loopdev.Device) map[string]string {
	t.Helper()
	dir := filepath.Join("/sys/block", filepath.Base(device.Path))
	values := map[string]string{}
	for _, name := range []string{
		"loop/autoclear", "loop/offset", "loop/sizelimit", "loop/partscan", "loop/dio", "ro", "size", "queue/logical_block_size",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		values[name] = strings.TrimSpace(string(text))
	}
	return values
}
