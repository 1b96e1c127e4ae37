// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	kutil "k8s.io/kubernetes/pkg/volume/util"
	"k8s.io/kubernetes/pkg/volume/util/volumepathhandler"

	"github.com/volumekit/volumekit/internal/blockmap"
	"github.com/volumekit/volumekit/internal/loopdev"
)

// blockMapJobs map a device, which is a loop device, for a pod and take it away again: the bind mount of its node, the loop
// device that holds it, and the pod's link.
func blockMapJobs() []job {
	return []job{{
		tag:    "block",
		name:   "map a block device with a bind, and unmap it",
		target: "25x",
		peer:   peerBlockMap,
		ours:   ourBlockMap,
	}}
}

func peerBlockMap(b *testing.B) {
	m, handler := newMapping(b), volumepathhandler.NewBlockVolumePathHandler()
	for b.Loop() {
		if err := kutil.MapBlockVolume(handler, m.Device, m.GlobalMapPath, m.PodDir, m.Name, m.PodUID); err != nil {
			b.Fatal(err)
		}
		if err := kutil.UnmapBlockVolume(handler, m.GlobalMapPath, m.PodDir, m.Name, m.PodUID); err != nil {
			b.Fatal(err)
		}
	}
}

func ourBlockMap(b *testing.B) {
	m, mounter := newMapping(b), newOurMounter()
	for b.Loop() {
		if _, err := blockmap.Map(b.Context(), mounter, m); err != nil {
			b.Fatal(err)
		}
		if err := blockmap.Unmap(b.Context(), mounter, m); err != nil {
			b.Fatal(err)
		}
	}
}

// newMapping is where the kubelet maps a raw local volume. The device goes with the measurement.
func newMapping(tb testing.TB) blockmap.Mapping {
	tb.Helper()
	image, root := newImage(tb), tb.TempDir()
	handle, err := loopdev.Attach(tb.Context(), image, loopdev.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := handle.Close(); err != nil {
			tb.Error(err)
		}
		detachAll(tb, image)
	})
	// The node has another raw volume, so that the plugin's directories stay.
	devices := filepath.Join(root, "plugins/kubernetes.io~local-volume/volumeDevices")
	if err := os.MkdirAll(filepath.Join(devices, "pv-0"), 0o750); err != nil {
		tb.Fatal(err)
	}
	const uid = "0b3f6a52-7c1d-4e8f-9a20-5d1c6e7f8a90"
	return blockmap.Mapping{
		Device:        handle.Path,
		GlobalMapPath: filepath.Join(devices, "pv-1"),
		PodDir:        filepath.Join(root, "pods", uid, "volumeDevices/kubernetes.io~local-volume"),
		Name:          "pv-1",
		PodUID:        types.UID(uid),
	}
}
