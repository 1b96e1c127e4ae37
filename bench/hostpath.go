// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kvolume "k8s.io/kubernetes/pkg/volume"
	khostpath "k8s.io/kubernetes/pkg/volume/hostpath"

	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/volume"
)

// hostPathJobs set up a hostPath of type Directory that exists.
func hostPathJobs() []job {
	return []job{{
		tag:    "core",
		name:   "hostPath, existing directory of type Directory",
		target: "2x",
		allocs: true,
		peer:   peerHostPath,
		ours:   ourHostPath,
	}}
}

func hostPathVolume(path string, kind v1.HostPathType) *v1.Volume {
	return &v1.Volume{Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path, Type: &kind}}}
}

func testPod() *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bench", UID: "0b3f6a52-7c1d-4e8f-9a20-5d1c6e7f8a90"}}
}

func peerHostPath(b *testing.B) {
	plugin := khostpath.ProbeVolumePlugins(kvolume.VolumeConfig{})[0]
	if err := plugin.Init(newPeerHost(b.TempDir(), newPeerMounter())); err != nil {
		b.Fatal(err)
	}
	spec, pod := kvolume.NewSpecFromVolume(hostPathVolume(b.TempDir(), v1.HostPathDirectory)), testPod()
	b.ReportAllocs()
	for b.Loop() {
		mounter, err := plugin.NewMounter(spec, pod)
		if err != nil {
			b.Fatal(err)
		}
		if err := mounter.SetUp(kvolume.MounterArgs{}); err != nil {
			b.Fatal(err)
		}
	}
}

func ourHostPath(b *testing.B) {
	plugin := hostpath.New(hostpath.Options{})
	initialise(b, plugin, b.TempDir())
	spec, pod := volume.NewSpecFromVolume(hostPathVolume(b.TempDir(), v1.HostPathDirectory)), testPod()
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		mounter, err := plugin.NewMounter(spec, pod)
		if err != nil {
			b.Fatal(err)
		}
		if err := mounter.SetUp(ctx, volume.SetUpOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
