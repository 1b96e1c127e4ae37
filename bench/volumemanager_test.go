// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/mount-utils"
)

func TestSameAnswerVolumesOfPods(t *testing.T) {
	theirRoot, ourRoot := tmpfsRoot(t), tmpfsRoot(t)
	theirPods, ourPods := variousPods(t, theirRoot), variousPods(t, ourRoot)
	theirs, ours := startPeerVolumeManager(t, theirRoot), startOurVolumeManager(t, ourRoot)

	require.NoError(t, theirs.setUp(t.Context(), theirPods))
	require.NoError(t, ours.setUp(t.Context(), ourPods))
	require.Len(t, volumeDirs(t, theirRoot), 5)
	require.Len(t, mountsBelow(t, theirRoot), 3)
	assert.Equal(t, entries(t, theirRoot, volumeDirs(t, theirRoot)), entries(t, ourRoot, volumeDirs(t, ourRoot)))
	assert.Equal(t, entries(t, theirRoot, hostDirs(t, theirRoot)), entries(t, ourRoot, hostDirs(t, ourRoot)))
	// Beside the volumes, the peer's plugins note what is ready in "plugins", and volumekit what is set up in a file.
	assert.Subset(t, []string{"volumes", "plugins"}, besideVolumes(t, theirRoot))
	assert.Subset(t, []string{"volumes", "volumekit.json"}, besideVolumes(t, ourRoot))

	for _, dir := range slices.Concat(volumeDirs(t, theirRoot), volumeDirs(t, ourRoot)) {
		require.NoError(t, os.Mkdir(filepath.Join(dir, "left"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "left", "by-a-container"), nil, 0o400))
	}
	require.NoError(t, theirs.tearDown(t.Context(), theirPods))
	require.NoError(t, ours.tearDown(t.Context(), ourPods))
	for _, root := range []string{theirRoot, ourRoot} {
		assert.Empty(t, volumeDirs(t, root))
		assert.Empty(t, mountsBelow(t, root))
		assert.Len(t, hostDirs(t, root), 1, "what a hostPath made belongs to the host")
	}
	assert.Empty(t, glob(t, ourRoot, "pods/*"), "volumekit removes the rest of the pods too")
}

// variousPods have volumes of all kinds that both sides serve; host paths are in the root.
func variousPods(t *testing.T, root string) []*v1.Pod {
	disk, tmpfs, host := emptyDirVolume(), memoryVolume(), hostPathVolume(filepath.Join(root, "host", "made"), v1.HostPathDirectoryOrCreate)
	disk.Name, tmpfs.Name = "disk", "tmpfs"
	group := new(int64(0))
	if everyGroupIsMapped(t) {
		group = new(int64(1234))
	}
	grouped := newPod(1, *disk, *tmpfs, *host)
	grouped.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: group}
	plain := newPod(2, *disk, *tmpfs)
	limited := newPod(3, *tmpfs)
	limited.Spec.Containers[0].Resources.Limits = memory("512Ki")
	onHost := newPod(4, *hostPathVolume(root, v1.HostPathDirectory))
	return []*v1.Pod{grouped, plain, limited, onHost}
}

// tmpfsRoot is on a tmpfs, so that even a test that fails leaves no mount in it.
func tmpfsRoot(t *testing.T) string {
	root := t.TempDir()
	mountTmpfs(t, root)
	return root
}

// volumeDirs returns the directories of the volumes of all pods.
func volumeDirs(t *testing.T, root string) []string {
	return glob(t, root, "pods/*/volumes/*/*")
}

// hostDirs returns the directory of the host paths of variousPods, if it is there.
func hostDirs(t *testing.T, root string) []string {
	return glob(t, root, "host")
}

// besideVolumes returns the names of what is in the directories of the pods.
func besideVolumes(t *testing.T, root string) []string {
	var names []string
	for _, path := range glob(t, root, "pods/*/*") {
		names = append(names, filepath.Base(path))
	}
	return names
}

func glob(t *testing.T, root, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, pattern))
	require.NoError(t, err)
	return paths
}

// entry is what both sides have to agree on of a file or directory.
type entry struct {
	mode     fs.FileMode
	uid, gid uint32
	mount    mount.MountInfo // what is mounted there, zero if nothing is
}

// entries returns what the directories contain, and they themselves, by the path below the root.
func entries(t *testing.T, root string, dirs []string) map[string]entry {
	t.Helper()
	mounts := mountsBelow(t, root)
	found := make(map[string]entry)
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			stat := info.Sys().(*syscall.Stat_t)
			found[strings.TrimPrefix(path, root)] = entry{info.Mode(), stat.Uid, stat.Gid, mounts[path]}
			return nil
		})
		require.NoError(t, err)
	}
	return found
}

// mountsBelow returns what is mounted below a directory by its path, without what differs from mount to mount.
func mountsBelow(t *testing.T, dir string) map[string]mount.MountInfo {
	t.Helper()
	infos, err := mount.ParseMountInfo("/proc/self/mountinfo")
	require.NoError(t, err)
	mounts := make(map[string]mount.MountInfo)
	for _, info := range infos {
		path := info.MountPoint
		if !strings.HasPrefix(path, dir+"/") {
			continue
		}
		info.ID, info.ParentID, info.Major, info.Minor, info.MountPoint = 0, 0, 0, 0, ""
		// volumekit makes a tmpfs with the mode and the group that the peer gives it afterwards: its entry has both.
		info.SuperOptions = slices.DeleteFunc(info.SuperOptions, func(option string) bool {
			return strings.HasPrefix(option, "mode=") || strings.HasPrefix(option, "gid=")
		})
		slices.Sort(info.SuperOptions)
		mounts[path] = info
	}
	return mounts
}
