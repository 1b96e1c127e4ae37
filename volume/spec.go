// SPDX-License-Identifier: Apache-2.0

package volume

import (
	v1 "k8s.io/api/core/v1"
)

// Spec is what a plugin is asked to serve: a volume of a pod, or a PersistentVolume. Exactly one of the two is set.
type Spec struct {
	// Volume is an entry of a pod's spec.volumes whose source needs no PersistentVolume.
	Volume *v1.Volume

	// PersistentVolume is the volume that a pod's claim is bound to.
	PersistentVolume *v1.PersistentVolume

	// ReadOnly is what the pod's claim volume says; a source may add to it but not take it back.
	ReadOnly bool
}

// NewSpecFromVolume returns the spec of a volume that stands in a pod.
func NewSpecFromVolume(vol *v1.Volume) *Spec {
	return &Spec{Volume: vol}
}

// NewSpecFromPersistentVolume returns the spec of a PersistentVolume as a pod uses it.
func NewSpecFromPersistentVolume(pv *v1.PersistentVolume, readOnly bool) *Spec {
	return &Spec{PersistentVolume: pv, ReadOnly: readOnly}
}

// Name is the name of the volume's directory in the pod's tree: the PersistentVolume's name, or the volume's name in the
// pod. It is empty for an empty spec.
func (s *Spec) Name() string {
	switch {
	case s == nil:
		return ""
	case s.PersistentVolume != nil:
		return s.PersistentVolume.Name
	case s.Volume != nil:
		return s.Volume.Name
	}
	return ""
}
