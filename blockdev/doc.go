// SPDX-License-Identifier: Apache-2.0

// Package blockdev serves PersistentVolumes with a local source: a directory, a block device, or a file that is used as one.
//
//   - A directory is bound into the pod.
//   - A block device (volumeMode Filesystem) is mounted once per node, at plugins/kubernetes.io/local-volume/mounts/NAME, and bound
//     into each pod from there. If it is blank a file system is made on it first.
//   - A raw block device (volumeMode Block) reaches the pod as it is.
//   - A regular file, which Kubernetes does not know here, stands for a block device: it is attached to a loop device.
//
// # Formatting
//
// A file system is made only on a device of which it is proved that nothing is on it: see package internal/filesystem for what that
// takes. What cannot be read, or is not known, is refused, and mkfs is never forced. If the PersistentVolume has no fsType, what is
// there is mounted, and ext4 is made where nothing is; if it has one, another file system is refused.
//
// A file system is checked before it is mounted, unless the device is in use already, and damage that needs a person's decision is
// refused with what the check said.
//
// # Read-only
//
// A claim that is read-only in the pod makes the pod's bind mount read-only, and leaves the device as it is for other pods. With
// "ro" among the PersistentVolume's mountOptions, or ReadOnlyMany as its only access mode, the device is mounted read-only for all.
package blockdev
