// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kvolume "k8s.io/kubernetes/pkg/volume"
	kemptydir "k8s.io/kubernetes/pkg/volume/emptydir"

	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/plugins"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volumemanager"
)

// emptyDirJobs set up and tear down an emptyDir through its plugin: NewMounter, SetUp, NewUnmounter, TearDown.
//
// In the rows of a whole pod, volumekit does it through its manager, which writes records before it begins and leaves nothing
// behind. The peer has no record but the plugin's; its half is the plugin and removing the pod's directory, which the
// kubelet does later. What its manager costs is not counted.
func emptyDirJobs() []job {
	return []job{
		{
			tag:    "core",
			name:   "emptyDir Memory, set up and tear down",
			target: "12x",
			peer:   peerEmptyDir(memoryVolume, tempDir),
			ours:   ourEmptyDir(memoryVolume, tempDir),
		},
		{
			tag:    "core",
			name:   "emptyDir on disk, set up and tear down",
			target: "2x",
			peer:   peerEmptyDir(emptyDirVolume, tempDir),
			ours:   ourEmptyDir(emptyDirVolume, tempDir),
		},
		{
			tag:    "core",
			name:   "a pod with one emptyDir on disk, until nothing is left, with volumekit's records",
			target: "2x",
			peer:   peerPodWith(emptyDirVolume, tempDir),
			ours:   ourPodWith(emptyDirVolume, tempDir),
		},
		{
			tag:    "core",
			name:   "emptyDir on disk, the root on tmpfs, set up and tear down",
			target: "3x",
			peer:   peerEmptyDir(emptyDirVolume, tempDirOnTmpfs),
			ours:   ourEmptyDir(emptyDirVolume, tempDirOnTmpfs),
		},
		{
			tag:  "core",
			name: "a pod with one emptyDir, the root on tmpfs, until nothing is left, with volumekit's records",
			peer: peerPodWith(emptyDirVolume, tempDirOnTmpfs),
			ours: ourPodWith(emptyDirVolume, tempDirOnTmpfs),
		},
	}
}

// memoryVolume is an emptyDir on a tmpfs of 1 MiB.
func memoryVolume() *v1.Volume {
	limit := resource.MustParse("1Mi")
	vol := emptyDirVolume()
	vol.EmptyDir.Medium, vol.EmptyDir.SizeLimit = v1.StorageMediumMemory, &limit
	return vol
}

// tempDir is on whatever disk $TMPDIR is on.
func tempDir(b *testing.B) string {
	return b.TempDir()
}

func tempDirOnTmpfs(b *testing.B) string {
	dir := b.TempDir()
	mountTmpfs(b, dir)
	return dir
}

func peerEmptyDir(source func() *v1.Volume, root func(*testing.B) string) func(*testing.B) {
	return func(b *testing.B) {
		cycle := newPeerCycle(b, root(b), source())
		for b.Loop() {
			if err := cycle(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func peerPodWith(source func() *v1.Volume, root func(*testing.B) string) func(*testing.B) {
	return func(b *testing.B) {
		dir := rootWithAPod(b, root)
		cycle := newPeerCycle(b, dir, source())
		podDir := filepath.Join(dir, "pods", string(testPod().UID))
		for b.Loop() {
			if err := cycle(); err != nil {
				b.Fatal(err)
			}
			if err := os.RemoveAll(podDir); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// newPeerCycle returns what sets the volume up and tears it down once.
func newPeerCycle(b *testing.B, root string, source *v1.Volume) func() error {
	b.Helper()
	plugin := kemptydir.ProbeVolumePlugins()[0]
	if err := plugin.Init(newPeerHost(root, newPeerMounter())); err != nil {
		b.Fatal(err)
	}
	spec, pod := kvolume.NewSpecFromVolume(source), testPod()
	return func() error {
		mounter, err := plugin.NewMounter(spec, pod)
		if err != nil {
			return err
		}
		if err := mounter.SetUp(kvolume.MounterArgs{}); err != nil {
			return err
		}
		unmounter, err := plugin.NewUnmounter(spec.Name(), pod.UID)
		if err != nil {
			return err
		}
		return unmounter.TearDown()
	}
}

// rootWithAPod returns a root in which there is another pod, so that the directory of all pods stays.
func rootWithAPod(b *testing.B, root func(*testing.B) string) string {
	b.Helper()
	dir := root(b)
	if err := os.MkdirAll(filepath.Join(dir, "pods", "another"), 0o750); err != nil {
		b.Fatal(err)
	}
	return dir
}

func ourEmptyDir(source func() *v1.Volume, root func(*testing.B) string) func(*testing.B) {
	return func(b *testing.B) {
		plugin := emptydir.New(emptydir.Options{})
		initialise(b, plugin, root(b))
		spec, pod := volume.NewSpecFromVolume(source()), testPod()
		ctx := b.Context()
		for b.Loop() {
			mounter, err := plugin.NewMounter(spec, pod)
			if err != nil {
				b.Fatal(err)
			}
			if err := mounter.SetUp(ctx, volume.SetUpOptions{}); err != nil {
				b.Fatal(err)
			}
			unmounter, err := plugin.NewUnmounter(spec.Name(), pod.UID)
			if err != nil {
				b.Fatal(err)
			}
			if err := unmounter.TearDown(ctx, volume.TearDownOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func ourPodWith(source func() *v1.Volume, root func(*testing.B) string) func(*testing.B) {
	return func(b *testing.B) {
		ctx := b.Context()
		mgr, err := volume.NewVolumePluginMgr(ctx, volume.Host{Root: rootWithAPod(b, root)}, plugins.Default())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(mgr.Close)
		manager, err := volumemanager.New(ctx, mgr, volumemanager.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := manager.Close(); err != nil {
				b.Error(err)
			}
		})
		pod := testPod()
		pod.Spec.Volumes = []v1.Volume{*source()}
		for b.Loop() {
			if _, err := manager.SetUpPod(ctx, pod); err != nil {
				b.Fatal(err)
			}
			if err := manager.TearDownPod(ctx, pod.UID); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// initialise gives the plugin a host on root with the defaults.
func initialise(b *testing.B, plugin volume.VolumePlugin, root string) {
	b.Helper()
	host, err := volume.Host{Root: root}.Complete()
	if err != nil {
		b.Fatal(err)
	}
	if err := plugin.Init(b.Context(), host); err != nil {
		b.Fatal(err)
	}
}
