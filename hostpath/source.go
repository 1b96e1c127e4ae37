// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/provisioning"
	"github.com/volumekit/volumekit/volume"
)

// hostPathOf returns the hostPath source of spec, nil if it has none.
func hostPathOf(spec *volume.Spec) *v1.HostPathVolumeSource {
	switch {
	case spec == nil:
		return nil
	case spec.PersistentVolume != nil:
		return spec.PersistentVolume.Spec.HostPath
	case spec.Volume != nil:
		return spec.Volume.HostPath
	}
	return nil
}

func errNoSource(spec *volume.Spec) error {
	return volume.Errorf(volume.ErrInvalid, "volume %q has no hostPath", spec.Name())
}

func checkSource(source *v1.HostPathVolumeSource) error {
	if err := provisioning.CheckPath("hostPath.path", source.Path); err != nil {
		return err
	}
	kind := kindOf(source)
	if kind == v1.HostPathUnset {
		return nil
	}
	if _, known := kinds[kind]; !known {
		return volume.Errorf(volume.ErrInvalid, "hostPath.type %q is not one of Directory, DirectoryOrCreate, File, FileOrCreate, Socket, CharDevice, BlockDevice", kind)
	}
	return nil
}

// checkPersistentVolume refuses the fields, beside the source, that would need something to be mounted. pv may be nil.
func checkPersistentVolume(pv *v1.PersistentVolume) error {
	switch {
	case pv == nil:
		return nil
	case len(pv.Spec.MountOptions) > 0:
		return volume.Errorf(volume.ErrNotSupported, "mountOptions have no effect on a hostPath, which is not mounted: remove them")
	case pv.Annotations[v1.MountOptionAnnotation] != "":
		return volume.Errorf(volume.ErrNotSupported, "the mount options in annotation %s have no effect on a hostPath, which is not mounted: remove them", v1.MountOptionAnnotation)
	case pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == v1.PersistentVolumeBlock:
		return volume.Errorf(volume.ErrNotSupported, "volumeMode Block is not supported by hostPath")
	}
	return nil
}

func kindOf(source *v1.HostPathVolumeSource) v1.HostPathType {
	if source.Type == nil {
		return v1.HostPathUnset
	}
	return *source.Type
}
