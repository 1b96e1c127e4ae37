// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

func TestConformance(t *testing.T) {
	volumetest.Run(t, volumetest.Config{
		New: func() volume.VolumePlugin { return New(Options{}) },
		Cases: []volumetest.Case{
			{Name: "directory", Spec: newSpec(v1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("1Mi"))})},
			{Name: "memory", Spec: newSpec(v1.EmptyDirVolumeSource{Medium: "Memory"}), Mounts: true},
			{
				Name:   "huge pages",
				Spec:   newSpec(v1.EmptyDirVolumeSource{Medium: "HugePages", SizeLimit: ptr.To(resource.MustParse("4Mi"))}),
				Pod:    newPod(asking("hugepages-2Mi")),
				Mounts: true, NoData: true,
			},
		},
		Unsupported: []*volume.Spec{volume.NewSpecFromVolume(&v1.Volume{Name: "both", VolumeSource: v1.VolumeSource{
			EmptyDir: &v1.EmptyDirVolumeSource{}, HostPath: &v1.HostPathVolumeSource{Path: "/"},
		}})},
		Invalid: []volumetest.InvalidCase{
			{Name: "medium", Spec: newSpec(v1.EmptyDirVolumeSource{Medium: "Tape"}), Mentions: []string{"emptyDir.medium", "Tape", "HugePages-<size>"}},
			{Name: "page size that nobody asks for", Spec: newSpec(v1.EmptyDirVolumeSource{Medium: "HugePages-2Mi"}), Mentions: []string{"emptyDir.medium", "HugePages-2Mi"}},
			{Name: "sizeLimit", Spec: newSpec(v1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("-1Mi"))}), Mentions: []string{"emptyDir.sizeLimit", "-1Mi"}},
			{Name: "mode", Spec: newSpec(v1.EmptyDirVolumeSource{Mode: ptr.To[int32](0o2777)}), Mentions: []string{"emptyDir.mode", "02777"}},
		},
	})
}

func TestConformanceWithOptions(t *testing.T) {
	volumetest.Run(t, volumetest.Config{
		New: func() volume.VolumePlugin { return New(Options{NoExec: true, NoSUID: true, NoDev: true}) },
		Cases: []volumetest.Case{
			{Name: "directory", Spec: newSpec(v1.EmptyDirVolumeSource{}), Mounts: true},
			{Name: "memory", Spec: newSpec(v1.EmptyDirVolumeSource{Medium: "Memory"}), Mounts: true},
			{Name: "huge pages", Spec: newSpec(v1.EmptyDirVolumeSource{Medium: "HugePages-2Mi"}), Pod: newPod(asking("hugepages-2Mi")), Mounts: true, NoData: true},
		},
	})
}

func newSpec(source v1.EmptyDirVolumeSource) *volume.Spec {
	return volume.NewSpecFromVolume(&v1.Volume{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &source}})
}

// newPod returns a pod with one container for each of the resources.
func newPod(resources ...v1.ResourceRequirements) *v1.Pod {
	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", "pod", "3f8a4a52-6f5e-4f6f-9a35-2d0f4f0f0001"
	for _, r := range resources {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: "container", Resources: r})
	}
	return pod
}

// asking returns requirements with limits and requests of 4Mi of each resource.
func asking(names ...v1.ResourceName) v1.ResourceRequirements {
	list := v1.ResourceList{}
	for _, name := range names {
		list[name] = resource.MustParse("4Mi")
	}
	return v1.ResourceRequirements{Limits: list, Requests: list}
}
