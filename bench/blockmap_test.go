// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	kutil "k8s.io/kubernetes/pkg/volume/util"
	"k8s.io/kubernetes/pkg/volume/util/volumepathhandler"

	"github.com/volumekit/volumekit/internal/blockmap"
)

func BenchmarkBlockMap(b *testing.B) { benchmarkJobs(b, blockMapJobs()) }

func TestSameBlockMap(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: loop devices cannot be attached")
	}
	theirs, ours := newMapping(t), newMapping(t)
	handler, mounter := volumepathhandler.NewBlockVolumePathHandler(), newOurMounter()
	require.NoError(t, kutil.MapBlockVolume(handler, theirs.Device, theirs.GlobalMapPath, theirs.PodDir, theirs.Name, theirs.PodUID))
	_, err := blockmap.Map(t.Context(), mounter, ours)
	require.NoError(t, err)

	node := func(m blockmap.Mapping) string { return filepath.Join(m.GlobalMapPath, string(m.PodUID)) }
	for who, m := range map[string]blockmap.Mapping{"the peer": theirs, "volumekit": ours} {
		var device, bound unix.Stat_t
		require.NoError(t, unix.Stat(m.Device, &device))
		require.NoError(t, unix.Lstat(node(m), &bound))
		assert.Equal(t, uint32(unix.S_IFBLK), bound.Mode&unix.S_IFMT, who)
		assert.Equal(t, device.Rdev, bound.Rdev, who)
		target, err := os.Readlink(filepath.Join(m.PodDir, m.Name))
		require.NoError(t, err, who)
		assert.Equal(t, m.Device, target, who)
		lock := attachedTo(t, node(m))
		found, err := handler.GetLoopDevice(node(m))
		require.NoError(t, err, who)
		assert.Equal(t, lock.Path, found, who)
	}
	// Ours is read-only: it holds the device, and nobody has to write through it.
	theirLock, ourLock := attributes(t, attachedTo(t, node(theirs))), attributes(t, attachedTo(t, node(ours)))
	assert.Equal(t, "0", theirLock["ro"])
	assert.Equal(t, "1", ourLock["ro"])
	delete(theirLock, "ro")
	delete(ourLock, "ro")
	assert.Equal(t, theirLock, ourLock)
	files := func(m blockmap.Mapping) map[string]fs.FileMode {
		all := contents(t, filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(m.GlobalMapPath)))))
		for path := range all {
			if filepath.Base(path) == "."+string(m.PodUID) {
				delete(all, path) // volumekit's own
			}
		}
		return all
	}
	assert.Equal(t, files(theirs), files(ours))

	require.NoError(t, kutil.UnmapBlockVolume(handler, theirs.GlobalMapPath, theirs.PodDir, theirs.Name, theirs.PodUID))
	require.NoError(t, blockmap.Unmap(t.Context(), mounter, ours))
	for who, m := range map[string]blockmap.Mapping{"the peer": theirs, "volumekit": ours} {
		assert.NoFileExists(t, node(m), who)
		assert.NoFileExists(t, filepath.Join(m.PodDir, m.Name), who)
		assert.Empty(t, allAttachedTo(t, m.Device), who)
	}
	// The peer leaves the directory of the volume to whoever takes the device away.
	assert.DirExists(t, theirs.GlobalMapPath)
	assert.NoDirExists(t, ours.GlobalMapPath)
}
