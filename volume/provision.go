// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// ProvisionableVolumePlugin is a plugin that can create the storage behind a PersistentVolume.
type ProvisionableVolumePlugin interface {
	VolumePlugin

	// NewProvisioner returns a Provisioner, or an error if the host or the plugin's options rule provisioning out.
	NewProvisioner() (Provisioner, error)
}

// Provisioner creates storage for claims. It may be called concurrently, for different claims.
type Provisioner interface {
	// Provision creates the storage and returns the PersistentVolume that describes it, not yet written to any API. Called
	// again with the same PVName it returns the same storage. [ErrUncertain] means that storage may have been created:
	// the caller repeats the call before it gives the claim up. [ErrInvalid] and [ErrNotSupported] mean that repeating is
	// useless until the claim or the class is changed, [ErrInUse] that something else has to go first.
	Provision(context.Context, ProvisionOptions) (*v1.PersistentVolume, error)
}

// ProvisionOptions say what to provision.
type ProvisionOptions struct {
	// PVName is the name of the PersistentVolume to be: one per claim for ever, "pvc-" and the claim's UID.
	PVName string

	// Claim is the claim to serve. Never nil.
	Claim *v1.PersistentVolumeClaim

	// Class is the claim's StorageClass. Its parameters, reclaimPolicy, mountOptions and allowedTopologies each have
	// their effect or are refused by name. Never nil.
	Class *storagev1.StorageClass

	// SelectedNode is the node that the scheduler chose for the first pod, nil if the claim binds immediately.
	SelectedNode *v1.Node
}

// DeletableVolumePlugin is a plugin that can delete the storage behind a PersistentVolume.
type DeletableVolumePlugin interface {
	VolumePlugin

	// NewDeleter returns a Deleter, or an error if the host or the plugin's options rule deleting out.
	NewDeleter() (Deleter, error)
}

// Deleter deletes storage. It may be called concurrently, for different volumes.
type Deleter interface {
	// Delete deletes the storage behind the volume, for ever. It succeeds for what is gone already; it refuses, and
	// touches nothing, what it did not provision itself. [ErrInUse] asks for a later try.
	Delete(context.Context, *v1.PersistentVolume) error
}

// RecyclableVolumePlugin is a plugin that can scrub a released PersistentVolume for the next claim.
type RecyclableVolumePlugin interface {
	VolumePlugin

	// NewRecycler returns a Recycler, or an error if the host or the plugin's options rule recycling out.
	NewRecycler() (Recycler, error)
}

// Recycler scrubs released volumes. It may be called concurrently, for different volumes.
type Recycler interface {
	// Recycle removes everything inside the volume and keeps the volume. Repeated, it goes on.
	Recycle(context.Context, *v1.PersistentVolume) error
}

// ExpandableVolumePlugin is a plugin whose volumes can grow where they are stored.
type ExpandableVolumePlugin interface {
	VolumePlugin

	// NewExpander returns an Expander. It does no I/O.
	NewExpander() (Expander, error)
}

// Expander grows storage. It may be called concurrently, for different volumes.
type Expander interface {
	// Expand grows the storage behind spec to at least size. It is idempotent.
	Expand(ctx context.Context, spec *Spec, size resource.Quantity) (ExpandResult, error)
}

// ExpandResult is what Expand achieved.
type ExpandResult struct {
	// Size is the size of the storage now, at least what was asked for.
	Size resource.Quantity

	// NodeExpansionRequired says that the node has to grow the device or the file system too.
	NodeExpansionRequired bool
}

// NodeExpandableVolumePlugin is a plugin whose volumes grow on the node that uses them.
type NodeExpandableVolumePlugin interface {
	VolumePlugin

	// NewNodeExpander returns a NodeExpander. It does no I/O.
	NewNodeExpander() (NodeExpander, error)
}

// NodeExpander grows devices and file systems. It may be called concurrently, for different volumes.
type NodeExpander interface {
	// NodeExpand grows the device and its file system, if it has one, to at least Size. It is idempotent. [ErrInvalid]
	// means that repeating is useless until something changes.
	NodeExpand(context.Context, NodeExpandOptions) (resource.Quantity, error)
}

// NodeExpandOptions say what NodeExpand works on.
type NodeExpandOptions struct {
	// Spec is the volume. Never nil.
	Spec *Spec

	// Size is what the volume shall have at least.
	Size resource.Quantity

	// DevicePath is the device, empty for a plugin whose volumes are not attached.
	DevicePath string

	// DeviceMountPath is where the device is mounted for all pods; empty for a raw block device.
	DeviceMountPath string

	// VolumePath is where one pod sees the volume.
	VolumePath string
}
