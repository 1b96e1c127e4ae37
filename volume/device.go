// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AttachableVolumePlugin is a plugin whose volumes have to be attached to a node before the node can use them.
type AttachableVolumePlugin interface {
	DeviceMountableVolumePlugin

	// NewAttacher returns an Attacher. It does no I/O.
	NewAttacher() (Attacher, error)

	// NewDetacher returns a Detacher. It does no I/O.
	NewDetacher() (Detacher, error)

	// CanAttach reports whether this spec needs to be attached at all. An error means that it is not known yet.
	CanAttach(*Spec) (bool, error)
}

// Attacher attaches volumes to nodes. It may be called concurrently, for different volumes.
type Attacher interface {
	// Attach makes the volume available to the node and returns the device's path there, if it is known already. It is
	// idempotent. [ErrUncertain] means that the volume may have been attached.
	Attach(ctx context.Context, spec *Spec, node types.NodeName) (devicePath string, err error)

	// WaitForAttach runs on the node and returns the device's path once the device is there. ctx carries the deadline.
	WaitForAttach(ctx context.Context, spec *Spec, devicePath string) (string, error)

	// Attached tells for each spec whether it is attached to the node. Every spec has an answer in the map, Unknown
	// where there is none; the error explains the unknown ones.
	Attached(ctx context.Context, specs []*Spec, node types.NodeName) (map[*Spec]Presence, error)
}

// Detacher detaches volumes from nodes. It may be called concurrently, for different volumes.
type Detacher interface {
	// Detach takes the volume, named as [VolumePlugin.VolumeName] names it, from the node. It succeeds for a volume that
	// is not attached. [ErrUncertain] means that it may still be attached.
	Detach(ctx context.Context, volumeName string, node types.NodeName) error
}

// DeviceMountableVolumePlugin is a plugin that mounts a volume once per node, at a place from which it reaches each pod.
type DeviceMountableVolumePlugin interface {
	VolumePlugin

	// NewDeviceMounter returns a DeviceMounter. It does no I/O.
	NewDeviceMounter() (DeviceMounter, error)

	// NewDeviceUnmounter returns a DeviceUnmounter. It does no I/O.
	NewDeviceUnmounter() (DeviceUnmounter, error)

	// CanDeviceMount reports whether this spec is mounted once per node. An error means that it is not known yet.
	CanDeviceMount(*Spec) (bool, error)

	// DeviceMountRefs lists the other places where what is mounted at deviceMountPath is mounted too. The device may be
	// unmounted only when there are none.
	DeviceMountRefs(ctx context.Context, deviceMountPath string) ([]string, error)
}

// DeviceMounter mounts a device at the place that all pods of the node share.
type DeviceMounter interface {
	// DeviceMountPath returns that place. It does no I/O.
	DeviceMountPath(*Spec) (string, error)

	// MountDevice mounts the device at deviceMountPath, after making a file system on it where the plugin does that. It
	// is idempotent. devicePath is empty for a plugin whose volumes are not attached.
	MountDevice(ctx context.Context, spec *Spec, devicePath, deviceMountPath string, options DeviceMountOptions) error
}

// DeviceMountOptions are what the first pod has to say about MountDevice. The zero value asks for nothing.
type DeviceMountOptions struct {
	// FSGroup is the pod's securityContext.fsGroup, for file systems that take the owner as a mount option. Nil leaves
	// ownership alone.
	FSGroup *int64

	// SELinuxLabel is that of [SetUpOptions].
	SELinuxLabel string
}

// DeviceUnmounter undoes MountDevice.
type DeviceUnmounter interface {
	// UnmountDevice unmounts what MountDevice mounted and removes what it made. It succeeds for what is absent.
	UnmountDevice(ctx context.Context, deviceMountPath string) error
}

// BlockVolumePlugin is a plugin whose volumes can reach a container as a raw block device (volumeMode Block).
type BlockVolumePlugin interface {
	VolumePlugin

	// NewBlockVolumeMapper returns the mapper of one volume for one pod. It does no I/O and checks the whole source.
	NewBlockVolumeMapper(*Spec, *v1.Pod) (BlockVolumeMapper, error)

	// NewBlockVolumeUnmapper returns the unmapper of the volume that [Spec.Name] names for the pod. It does no I/O.
	NewBlockVolumeUnmapper(name string, podUID types.UID) (BlockVolumeUnmapper, error)
}

// BlockVolumePaths are the two places of a mapped block device.
type BlockVolumePaths interface {
	// GlobalMapPath is the directory, one per volume and node, that holds one link per pod, named after its UID.
	GlobalMapPath() (string, error)

	// PodDeviceMapPath is the directory in the pod's own tree, and the name of the device's link in it.
	PodDeviceMapPath() (dir, name string)
}

// BlockVolumeMapper makes a raw block device available to one pod.
type BlockVolumeMapper interface {
	BlockVolumePaths

	// SetUpDevice prepares the device on the node, once for all pods. It is idempotent. devicePath is what WaitForAttach
	// returned, empty for a plugin whose volumes are not attached.
	SetUpDevice(ctx context.Context, devicePath string) (stagingPath string, err error)

	// MapPodDevice makes the device available to the pod and returns the device's path. It is idempotent. The links at
	// GlobalMapPath and PodDeviceMapPath are for the caller to make, and to take away before UnmapPodDevice; package
	// volumemanager does.
	MapPodDevice(ctx context.Context) (devicePath string, err error)
}

// BlockVolumeUnmapper undoes what a BlockVolumeMapper did.
type BlockVolumeUnmapper interface {
	BlockVolumePaths

	// UnmapPodDevice takes the device from the pod. It succeeds for what is absent.
	UnmapPodDevice(ctx context.Context) error

	// TearDownDevice undoes SetUpDevice once no pod is left. It succeeds for what is absent.
	TearDownDevice(ctx context.Context, devicePath string) error
}
