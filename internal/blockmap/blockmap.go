// SPDX-License-Identifier: Apache-2.0

// Package blockmap maps raw block devices for pods, whatever plugin they come from, as the kubelet does:
//
//	GLOBAL/<pod UID>   a bind mount of the device's node
//	GLOBAL/.<pod UID>  a link to the loop device that is attached to that, so that the device cannot go away
//	POD/<volume>       a link to the device's node
//
// GLOBAL is [Mapping].GlobalMapPath and POD [Mapping].PodDir. The second is volumekit's own; it is a hint, and the kernel's
// answer is what counts.
package blockmap

import (
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"
)

// Mapping says which device is mapped where. The names in it have been checked to be elements of paths.
type Mapping struct {
	// Device is the device's path. It may lead through symbolic links. Unmap does not need it.
	Device string

	// GlobalMapPath is the directory of the volume, which pods share.
	GlobalMapPath string

	// PodDir is the directory of the pod's links, and Name the link's name in it.
	PodDir, Name string

	// PodUID is the pod's.
	PodUID types.UID
}

// node is where the device's node is bound.
func (m Mapping) node() string { return filepath.Join(m.GlobalMapPath, string(m.PodUID)) }

// hint is the link to the loop device that holds the device.
func (m Mapping) hint() string { return filepath.Join(m.GlobalMapPath, "."+string(m.PodUID)) }

// link is the pod's link to the device.
func (m Mapping) link() string { return filepath.Join(m.PodDir, m.Name) }
