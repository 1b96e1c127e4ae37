// SPDX-License-Identifier: Apache-2.0

package hostpath_test

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

	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

func TestConformance(t *testing.T) {
	t.Run("every path is allowed", func(t *testing.T) {
		conform(t, t.TempDir(), hostpath.Options{}, nil)
	})
	t.Run("with an allow-list", func(t *testing.T) {
		dir := t.TempDir()
		conform(t, dir, hostpath.Options{AllowedPaths: []hostpath.AllowedPath{{Prefix: dir}}}, nil)
	})
	t.Run("with limits that the kernel enforces", func(t *testing.T) {
		mountns.RequirePrivate(t)
		conform(t, t.TempDir(), hostpath.Options{}, map[string]string{"hardLimit": "true"})
	})
}

func conform(t *testing.T, dir string, options hostpath.Options, parameters map[string]string) {
	base := filepath.Join(dir, "provisioned")
	options.BasePaths = []string{base}
	for _, d := range []string{"existing", "untyped", "recyclable"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "existing-file"), nil, 0o644))
	makeSocket(t, filepath.Join(dir, "socket"))

	config := volumetest.Config{
		New:  func() volume.VolumePlugin { return hostpath.New(options) },
		Host: func(string) volume.Host { return volume.Host{NodeName: "node-1"} },
		Invalid: []volumetest.InvalidCase{
			{Name: "a path that goes up", Spec: inline("/data/../etc", ""), Mentions: []string{"hostPath.path", "/data/../etc"}},
			{Name: "a type that does not exist", Spec: inline("/data", "Folder"), Mentions: []string{"hostPath.type", "Folder"}},
		},
		Unsupported: []*volume.Spec{
			volume.NewSpecFromVolume(&v1.Volume{Name: "other", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}),
		},
		Provision: &volumetest.ProvisionCase{
			InPlace:  true,
			Mounts:   parameters != nil,
			ExpandTo: ptr.To(resource.MustParse("20Gi")),
			Options: volume.ProvisionOptions{
				Claim: claim("data"),
				Class: &storagev1.StorageClass{
					ObjectMeta:  metav1.ObjectMeta{Name: "directories"},
					Provisioner: hostpath.DefaultProvisionerName,
					Parameters:  parameters,
				},
			},
		},
	}
	for _, subject := range []volumetest.Case{
		{Name: "Directory", Spec: inline(filepath.Join(dir, "existing"), v1.HostPathDirectory)},
		{Name: "DirectoryOrCreate", Spec: inline(filepath.Join(dir, "created", "directory"), v1.HostPathDirectoryOrCreate)},
		{Name: "File", Spec: inline(filepath.Join(dir, "existing-file"), v1.HostPathFile)},
		{Name: "FileOrCreate", Spec: inline(filepath.Join(dir, "created-file"), v1.HostPathFileOrCreate)},
		{Name: "Socket", Spec: inline(filepath.Join(dir, "socket"), v1.HostPathSocket)},
		{Name: "no type", Spec: inline(filepath.Join(dir, "untyped"), "none")},
		{Name: "PersistentVolume", Spec: persistent(filepath.Join(dir, "existing"), v1.HostPathDirectory)},
		{Name: "recycled", Spec: recycled(persistent(filepath.Join(dir, "recyclable"), v1.HostPathDirectory)), Recyclable: true},
	} {
		subject.InPlace = true
		config.Cases = append(config.Cases, subject)
	}
	volumetest.Run(t, config)
}

func recycled(spec *volume.Spec) *volume.Spec {
	spec.PersistentVolume.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRecycle
	return spec
}
