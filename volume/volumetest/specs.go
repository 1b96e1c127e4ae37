// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/volume"
)

// podFor returns a copy of the case's pod, or a pod that has the volume.
func podFor(subject Case) *v1.Pod {
	if subject.Pod != nil {
		return subject.Pod.DeepCopy()
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: "5d9ea30c-6b4a-4a8d-9d1f-0c8d5b1c2f11"},
		Spec: v1.PodSpec{
			ServiceAccountName: "default",
			Containers: []v1.Container{{
				Name: "container",
				Resources: v1.ResourceRequirements{Limits: v1.ResourceList{
					v1.ResourceCPU:    resource.MustParse("1"),
					v1.ResourceMemory: resource.MustParse("64Mi"),
				}},
			}},
		},
	}
	if subject.Spec.PersistentVolume == nil && subject.Spec.Volume != nil {
		pod.Spec.Volumes = []v1.Volume{*subject.Spec.Volume.DeepCopy()}
	}
	return pod
}

func copySpec(spec *volume.Spec) *volume.Spec {
	return &volume.Spec{
		Volume:           spec.Volume.DeepCopy(),
		PersistentVolume: spec.PersistentVolume.DeepCopy(),
		ReadOnly:         spec.ReadOnly,
	}
}

// named returns a copy of the spec that has another name.
func named(spec *volume.Spec, name string) *volume.Spec {
	spec = copySpec(spec)
	if spec.PersistentVolume != nil {
		spec.PersistentVolume.Name = name
	} else {
		spec.Volume.Name = name
	}
	return spec
}
