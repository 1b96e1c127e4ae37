// SPDX-License-Identifier: Apache-2.0

package volumetest_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

func emptyDirSpec() *volume.Spec {
	return volume.NewSpecFromVolume(&v1.Volume{
		Name:         "scratch",
		VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}},
	})
}

func csiSpec(driver string) *volume.Spec {
	return volume.NewSpecFromVolume(&v1.Volume{
		Name:         "inline",
		VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: driver}},
	})
}

func TestAFakePluginPassesTheSuite(t *testing.T) {
	volumetest.Run(t, volumetest.Config{
		New:   func() volume.VolumePlugin { return &volumetest.FakePlugin{} },
		Cases: []volumetest.Case{{Name: "directory", Spec: emptyDirSpec()}},
	})
}

func TestAFakePluginThatMountsPassesTheSuite(t *testing.T) {
	volumetest.Run(t, volumetest.Config{
		New: func() volume.VolumePlugin {
			return &volumetest.FakePlugin{
				PluginName: "example.com/mounting",
				Serves:     []volume.Source{{Type: volume.SourceCSI, Driver: "example.com"}},
				Supports:   func(spec *volume.Spec) bool { return spec.Volume != nil },
				Tmpfs:      true,
			}
		},
		Cases:       []volumetest.Case{{Name: "tmpfs", Spec: csiSpec("example.com"), Mounts: true}},
		Unsupported: []*volume.Spec{volume.NewSpecFromPersistentVolume(csiVolume("example.com", "handle"), false)},
	})
}

func csiVolume(driver, handle string) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: v1.PersistentVolumeSource{
			CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle},
		}},
	}
}
