// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volumekit/volumekit/volume"
)

// Kind is what a plugin provisions.
type Kind struct {
	// Name is how messages name it: "hostPath".
	Name string

	// AccessModes and VolumeModes are those that it can have.
	AccessModes []v1.PersistentVolumeAccessMode
	VolumeModes []v1.PersistentVolumeMode

	// Mounted says that it is mounted, so that mount options have an effect.
	Mounted bool
}

// Check refuses a claim, or a class, that asks for what the kind cannot give. The parameters of the class are not its business.
func (k Kind) Check(claim *v1.PersistentVolumeClaim, class *storagev1.StorageClass) error {
	if err := k.checkClaim(claim); err != nil {
		return fmt.Errorf("claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	if err := k.checkClass(class); err != nil {
		return fmt.Errorf("StorageClass %s: %w", class.Name, err)
	}
	return nil
}

func (k Kind) checkClaim(claim *v1.PersistentVolumeClaim) error {
	spec := claim.Spec
	for _, mode := range spec.AccessModes {
		if !slices.Contains(k.AccessModes, mode) {
			return volume.Errorf(volume.ErrNotSupported, "access mode %s is not supported by %s, only %s", mode, k.Name, k.AccessModes)
		}
	}
	switch {
	case !slices.Contains(k.VolumeModes, VolumeMode(claim)):
		return volume.Errorf(volume.ErrNotSupported, "volumeMode %s is not supported by %s", VolumeMode(claim), k.Name)
	case spec.Selector != nil:
		return volume.Errorf(volume.ErrNotSupported, "a claim with a selector is not provisioned")
	case spec.DataSource != nil || spec.DataSourceRef != nil:
		return volume.Errorf(volume.ErrNotSupported, "dataSource and dataSourceRef are not supported by %s", k.Name)
	case spec.VolumeAttributesClassName != nil && *spec.VolumeAttributesClassName != "":
		return volume.Errorf(volume.ErrNotSupported, "volumeAttributesClassName %q is not supported by %s", *spec.VolumeAttributesClassName, k.Name)
	}
	if size := spec.Resources.Requests[v1.ResourceStorage]; size.Sign() <= 0 {
		return volume.Errorf(volume.ErrInvalid, "resources.requests.storage is %s, not a size", size.String())
	}
	return nil
}

func (k Kind) checkClass(class *storagev1.StorageClass) error {
	if len(class.MountOptions) > 0 && !k.Mounted {
		return volume.Errorf(volume.ErrNotSupported, "mountOptions have no effect on a %s, which is not mounted: remove them", k.Name)
	}
	if policy := class.ReclaimPolicy; policy != nil && *policy != v1.PersistentVolumeReclaimDelete && *policy != v1.PersistentVolumeReclaimRetain {
		return volume.Errorf(volume.ErrNotSupported, "reclaimPolicy %s is not supported for what is provisioned", *policy)
	}
	return nil
}

// VolumeMode returns the claim's, with its default.
func VolumeMode(claim *v1.PersistentVolumeClaim) v1.PersistentVolumeMode {
	if claim.Spec.VolumeMode == nil {
		return v1.PersistentVolumeFilesystem
	}
	return *claim.Spec.VolumeMode
}
