// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	v1 "k8s.io/api/core/v1"
	csitranslation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"

	"github.com/volumekit/volumekit/volume"
)

// translate returns the csi source of a volume that is described in a way of old, as the volumes of clouds are; nil if it is not.
func translate(spec *volume.Spec, namespace string) (*volume.Spec, error) {
	translator := csitranslation.New()
	var translated *v1.PersistentVolume
	var err error
	switch pv := spec.PersistentVolume; {
	case pv != nil && translator.IsPVMigratable(pv):
		translated, err = translator.TranslateInTreePVToCSI(klog.Background(), pv)
	case pv == nil && translator.IsInlineMigratable(spec.Volume):
		translated, err = translator.TranslateInTreeInlineVolumeToCSI(klog.Background(), spec.Volume, namespace)
	default:
		return nil, nil
	}
	if err != nil {
		return nil, volume.Errorf(volume.ErrInvalid, "source %s cannot be translated to that of its CSI driver: %w", spec.Source(), err)
	}
	return volume.NewSpecFromPersistentVolume(translated, spec.ReadOnly), nil
}
