// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
)

// PodStatus tells what a pod has of its volumes.
type PodStatus struct {
	// Namespace and Name are the pod's; empty if its records are damaged.
	Namespace, Name string

	// UID names the pod's directory.
	UID types.UID

	// Volumes are in the order of the pod's spec.volumes; after them come those that are on disk but not in the spec.
	Volumes []VolumeStatus

	// Containers are in the order in which the pod lists them: init containers, containers, ephemeral containers.
	Containers []ContainerStatus

	// Err says what is wrong with the pod as a whole: it was refused, or its record is damaged. Nil if nothing is.
	Err error
}

// VolumeStatus tells what has become of a volume.
type VolumeStatus struct {
	// Name is the volume's name in the pod.
	Name string

	// Plugin is the name of the plugin that serves it, empty if none does.
	Plugin string

	// Path is the volume's place on the host, empty if it has none.
	Path string

	// ReadOnly says that containers can only read it.
	ReadOnly bool

	// State sums it up.
	State VolumeState

	// Err says why State is Failed or Pending. It is nil if State is Mounted.
	Err error

	// Warnings are what the plugin had to say although it went on. Only SetUpPod fills them.
	Warnings []string

	// Metrics tell how full the volume is, nil if they were not asked for or the plugin has none. MetricsErr says why they
	// could not be had.
	Metrics    *volume.Metrics
	MetricsErr error
}

// VolumeState sums up what has become of a volume.
type VolumeState string

const (
	// Mounted volumes are there, whole, at their path.
	Mounted VolumeState = "mounted"
	// Failed volumes are not served, or it cannot be told whether they are there.
	Failed VolumeState = "failed"
	// Pending volumes are not there yet, or not any more: SetUpPod or TearDownPod was interrupted or has not come to them.
	Pending VolumeState = "pending"
)

// ContainerStatus tells what a container gets of its pod's volumes.
type ContainerStatus struct {
	// Name is the container's.
	Name string

	// Mounts are those that can be had, parents before what is mounted inside them.
	Mounts []Mount

	// Missing are those that cannot be had, in the order in which the container lists them.
	Missing []MissingMount
}

// MissingMount is a volume mount or a device of a container that cannot be had.
type MissingMount struct {
	// Volume is the volume's name in the pod, Destination the path in the container.
	Volume, Destination string

	// Err says why, if the reason lies in how the container asks for it. It is nil if the volume itself is not there, whose
	// status says why.
	Err error
}
