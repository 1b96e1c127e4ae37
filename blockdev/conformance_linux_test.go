// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

func TestConformance(t *testing.T) {
	mountns.RequirePrivate(t)
	files := t.TempDir()
	blank := func(name string, size int64) string { return newImage(t, filepath.Join(files, name), size) }
	dir, recyclable := filepath.Join(files, "directory"), filepath.Join(files, "recyclable")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.Mkdir(recyclable, 0o755))
	volumetest.Run(t, volumetest.Config{
		New: func() volume.VolumePlugin {
			return New(Options{BasePaths: []string{filepath.Join(files, "provisioned")}})
		},
		Cases: []volumetest.Case{
			{Name: "a directory", Spec: localVolume(dir, ""), Mounts: true, Durable: true},
			{Name: "a directory that is recycled", Spec: recycled(localVolume(recyclable, "")), Mounts: true, Durable: true, Recyclable: true},
			{Name: "a file with ext4", Spec: localVolume(blank("ext4", 64<<20), ""), Mounts: true, Durable: true},
			{Name: "a file with xfs", Spec: localVolume(blank("xfs", 320<<20), "xfs"), Mounts: true, Durable: true},
			{Name: "a file with btrfs", Spec: localVolume(blank("btrfs", 128<<20), "btrfs"), Mounts: true, Durable: true},
			{Name: "a device", Spec: localVolume(attachedDevice(t, blank("device", 64<<20)), ""), Mounts: true, Durable: true},
			{Name: "a raw device", Spec: rawVolume(attachedDevice(t, blank("raw device", 1<<20))), Mounts: true},
			{Name: "a raw file", Spec: rawVolume(blank("raw file", 1<<20)), Mounts: true},
		},
		Host: func(string) volume.Host { return volume.Host{NodeName: "node-1"} },
		Provision: &volumetest.ProvisionCase{
			Mounts:   true,
			ExpandTo: ptr.To(resource.MustParse("96Mi")),
			Options: volume.ProvisionOptions{
				Claim: &v1.PersistentVolumeClaim{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"},
					Spec: v1.PersistentVolumeClaimSpec{
						AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
						Resources:   v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("64Mi")}},
					},
				},
				Class: &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "devices"}, Provisioner: DefaultProvisionerName},
			},
		},
		Invalid: []volumetest.InvalidCase{
			{Name: "a path that goes up", Spec: localVolume("/data/../etc", ""), Mentions: []string{"local.path", "/data/../etc"}},
			{Name: "a relative path", Spec: localVolume("data", ""), Mentions: []string{"local.path", `"data"`}},
			{Name: "a file system that there is not", Spec: localVolume("/data", "ntfs"), Mentions: []string{"local.fsType", "ntfs"}},
		},
	})
}

func localVolume(path, fsType string) *volume.Spec {
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-1"},
		Spec: v1.PersistentVolumeSpec{
			Capacity:               v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}},
		},
	}
	if fsType != "" {
		pv.Spec.Local.FSType = &fsType
	}
	return volume.NewSpecFromPersistentVolume(pv, false)
}

func recycled(spec *volume.Spec) *volume.Spec {
	spec.PersistentVolume.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRecycle
	return spec
}

func rawVolume(path string) *volume.Spec {
	spec := localVolume(path, "")
	spec.PersistentVolume.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
	return spec
}
