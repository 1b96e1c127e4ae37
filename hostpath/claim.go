// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volumekit/volumekit/volume"
)

// checkClaim refuses a claim that asks for what a directory of the host cannot give.
func checkClaim(claim *v1.PersistentVolumeClaim, supported []v1.PersistentVolumeAccessMode) error {
	spec := claim.Spec
	for _, mode := range spec.AccessModes {
		if !slices.Contains(supported, mode) {
			return volume.Errorf(volume.ErrNotSupported, "access mode %s is not supported by hostPath, only %s", mode, supported)
		}
	}
	switch {
	case spec.VolumeMode != nil && *spec.VolumeMode != v1.PersistentVolumeFilesystem:
		return volume.Errorf(volume.ErrNotSupported, "volumeMode %s is not supported by hostPath", *spec.VolumeMode)
	case spec.Selector != nil:
		return volume.Errorf(volume.ErrNotSupported, "a claim with a selector is not provisioned")
	case spec.DataSource != nil || spec.DataSourceRef != nil:
		return volume.Errorf(volume.ErrNotSupported, "dataSource and dataSourceRef are not supported by hostPath")
	case spec.VolumeAttributesClassName != nil && *spec.VolumeAttributesClassName != "":
		return volume.Errorf(volume.ErrNotSupported, "volumeAttributesClassName %q is not supported by hostPath", *spec.VolumeAttributesClassName)
	}
	if size := spec.Resources.Requests[v1.ResourceStorage]; size.Sign() <= 0 {
		return volume.Errorf(volume.ErrInvalid, "resources.requests.storage is %s, not a size", size.String())
	}
	return nil
}

// checkClass refuses what has no effect on a directory of the host. The parameters are checked by parseParameters, the
// topologies by affinity.
func checkClass(class *storagev1.StorageClass) error {
	if len(class.MountOptions) > 0 {
		return volume.Errorf(volume.ErrNotSupported, "mountOptions have no effect on a hostPath, which is not mounted: remove them")
	}
	if policy := class.ReclaimPolicy; policy != nil && *policy != v1.PersistentVolumeReclaimDelete && *policy != v1.PersistentVolumeReclaimRetain {
		return volume.Errorf(volume.ErrNotSupported, "reclaimPolicy %s is not supported for what is provisioned", *policy)
	}
	return nil
}
