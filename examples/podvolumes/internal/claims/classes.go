// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// defaultClassAnnotation marks the class of claims that name none.
const defaultClassAnnotation = "storageclass.kubernetes.io/is-default-class"

// Classes are the StorageClasses that there are.
type Classes []*storagev1.StorageClass

// SetDefault fills in the class of a claim that names none, as the API server does: the default class, the newest if there are
// several, the first by name among those that are equally new.
func (c Classes) SetDefault(claim *v1.PersistentVolumeClaim) {
	if _, annotated := claim.Annotations[v1.BetaStorageClassAnnotation]; annotated || claim.Spec.StorageClassName != nil {
		return
	}
	defaults := slices.DeleteFunc(slices.Clone(c), func(class *storagev1.StorageClass) bool { return class.Annotations[defaultClassAnnotation] != "true" })
	if len(defaults) == 0 {
		return
	}
	class := slices.MinFunc(defaults, func(a, b *storagev1.StorageClass) int {
		if newer := b.CreationTimestamp.Compare(a.CreationTimestamp.Time); newer != 0 {
			return newer
		}
		return strings.Compare(a.Name, b.Name)
	})
	claim.Spec.StorageClassName = &class.Name
}

// of returns the class of a claim, nil if it names none that there is.
func (c Classes) of(claim *v1.PersistentVolumeClaim) *storagev1.StorageClass {
	name, annotated := claim.Annotations[v1.BetaStorageClassAnnotation]
	if !annotated && claim.Spec.StorageClassName != nil {
		name = *claim.Spec.StorageClassName
	}
	if i := slices.IndexFunc(c, func(class *storagev1.StorageClass) bool { return class.Name == name }); i >= 0 {
		return c[i]
	}
	return nil
}

// WaitsForPod reports whether the claim gets its volume only once a pod uses it: the class's volumeBindingMode says so.
func (c Classes) WaitsForPod(claim *v1.PersistentVolumeClaim) bool {
	class := c.of(claim)
	return class != nil && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}
