// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// VolumePlugin serves the volumes of one or more kinds of [Source] on a node. It is the least that a plugin does: make a
// directory available to one pod and take it away again. The other capabilities are the interfaces that embed it.
//
// All methods may be called concurrently once Init has returned nil.
type VolumePlugin interface {
	// Name identifies the plugin: a domain and a name parted by one slash, "kubernetes.io/empty-dir". It is part of the
	// directories of the plugin's volumes, so it must never change.
	Name() string

	// Sources lists the kinds of volume source that the plugin may serve. The manager looks at a plugin for a spec only
	// when the spec's source is listed; a Source without a driver stands for every driver. The answer must not change
	// while the plugin is registered.
	Sources() []Source

	// CanSupport reports whether the plugin serves this very spec. It decides by the spec alone, without I/O, and is
	// asked only about specs whose source the plugin lists.
	CanSupport(*Spec) bool

	// Init gives the plugin its host. It is called before any other method but Name and Sources, and called again after
	// it failed. A plugin that needs something which the host lacks returns an error that names it.
	Init(context.Context, Host) error

	// VolumeName returns what is unique to the thing behind the spec among the plugin's volumes: the device, the export,
	// the handle. Two specs of one name share the attachment and the device mount. A source that lives and dies with the
	// pod returns the name of the volume.
	VolumeName(*Spec) (string, error)

	// NewMounter returns the Mounter of one volume for one pod. It does no I/O; it checks the whole source, and the
	// error for a field that is invalid or without effect names the field and matches [ErrInvalid] or [ErrNotSupported].
	// A name that cannot be part of a path is refused in the same way, see [CheckName] and [CheckPodUID].
	NewMounter(*Spec, *v1.Pod) (Mounter, error)

	// NewUnmounter returns the Unmounter of the volume that [Spec.Name] names for the pod. It does no I/O and needs
	// neither the spec nor the pod, since both may be gone. Names that cannot be part of a path are refused.
	NewUnmounter(name string, podUID types.UID) (Unmounter, error)
}

// PersistentVolumePlugin is a plugin whose sources can stand in a PersistentVolume.
type PersistentVolumePlugin interface {
	VolumePlugin

	// AccessModes lists the ways in which the plugin's volumes can be accessed. A claim that asks for another one is not
	// provisioned.
	AccessModes() []v1.PersistentVolumeAccessMode
}

// MountOptionsVolumePlugin is a plugin that passes on the mountOptions of a PersistentVolume. With any other plugin a
// volume that has mountOptions is refused.
type MountOptionsVolumePlugin interface {
	VolumePlugin

	// SupportsMountOptions reports whether the mountOptions of this spec have their effect.
	SupportsMountOptions(*Spec) bool
}

// RemountVolumePlugin is a plugin whose volumes change after they were set up, such as config maps: SetUp is called again
// from time to time while the pod runs. A Mounter that is a [Refresher] says on what that depends.
type RemountVolumePlugin interface {
	VolumePlugin

	// RequiresRemount reports whether SetUp of this spec is to be repeated while it is in use.
	RequiresRemount(*Spec) bool
}

// SELinuxMountVolumePlugin is a plugin whose volumes can be mounted with one SELinux label for all their files.
type SELinuxMountVolumePlugin interface {
	VolumePlugin

	// SupportsSELinuxMount reports whether [SetUpOptions.SELinuxLabel] has its effect on this spec.
	SupportsSELinuxMount(*Spec) (bool, error)
}
