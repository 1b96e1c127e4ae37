// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/volume"
)

// annotationProvisionedBy is Kubernetes' annotation with the name of the provisioner that made a PersistentVolume.
const annotationProvisionedBy = "pv.kubernetes.io/provisioned-by"

// NewPersistentVolume returns the PersistentVolume of what was provisioned, with the claim's size as its capacity. The source and the
// node affinity are for the caller to fill in.
func (k Kind) NewPersistentVolume(options volume.ProvisionOptions, provisioner string) *v1.PersistentVolume {
	mode, policy := VolumeMode(options.Claim), v1.PersistentVolumeReclaimDelete
	if options.Class.ReclaimPolicy != nil {
		policy = *options.Class.ReclaimPolicy
	}
	modes := options.Claim.Spec.AccessModes
	if len(modes) == 0 {
		modes = k.AccessModes
	}
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: options.PVName, Annotations: map[string]string{annotationProvisionedBy: provisioner}},
		Spec: v1.PersistentVolumeSpec{
			Capacity:                      v1.ResourceList{v1.ResourceStorage: options.Claim.Spec.Resources.Requests[v1.ResourceStorage].DeepCopy()},
			AccessModes:                   modes,
			PersistentVolumeReclaimPolicy: policy,
			StorageClassName:              options.Class.Name,
			MountOptions:                  options.Class.MountOptions,
			VolumeMode:                    &mode,
		},
	}
}

// CheckProvisionedBy refuses a PersistentVolume that the provisioner has not made, as far as that itself says.
func CheckProvisionedBy(pv *v1.PersistentVolume, provisioner string) error {
	switch by, found := pv.Annotations[annotationProvisionedBy]; {
	case !found:
		return volume.Errorf(volume.ErrInvalid, "it was not provisioned: it has no annotation %s", annotationProvisionedBy)
	case by != provisioner:
		return volume.Errorf(volume.ErrInvalid, "it was provisioned by %q, not by %q (annotation %s)", by, provisioner, annotationProvisionedBy)
	}
	return nil
}
