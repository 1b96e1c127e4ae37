// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
)

// Status tells what a manager holds: what is wanted, what is there, and what is being done about the difference.
type Status struct {
	// Time is when it was so.
	Time time.Time

	// Running says that [Manager.Run] is at work, so that what is missing will be tried again.
	Running bool

	// Recovered says that what an earlier manager left has been taken over, see [Manager.Recover].
	Recovered bool

	// Complete says that [Manager.SetPods] has told all pods that are wanted, so that the volumes of others may go.
	Complete bool

	// Pods are in the order of their UIDs.
	Pods []PodStatus
}

// PodStatus tells what a pod has of its volumes.
type PodStatus struct {
	// Namespace and Name are the pod's; empty if its records are damaged.
	Namespace, Name string

	// UID names the pod's directory.
	UID types.UID

	// Leaving says that the pod is not wanted any more: its volumes go as soon as its containers are gone. In what
	// [Manager.Status] returns of a manager that does not know yet which pods are wanted, it is false.
	Leaving bool

	// Volumes are in the order of the pod's spec.volumes; after them come those that are on disk but not in the spec.
	Volumes []VolumeStatus

	// Containers are in the order in which the pod lists them: init containers, containers, ephemeral containers.
	Containers []ContainerStatus

	// SupplementalGroups are those that the pod's processes have to be members of beside the pod's own, because a PersistentVolume
	// says so, by the annotation "pv.beta.kubernetes.io/gid". [Inspect] does not know them.
	SupplementalGroups []int64

	// Err says what is wrong with the pod as a whole: it was refused, its record is damaged, or what it waits for. Nil if
	// nothing is.
	Err error
}

// VolumeStatus tells what has become of a volume.
type VolumeStatus struct {
	// Name is the volume's name in the pod.
	Name string

	// Plugin is the name of the plugin that serves it, empty if none does.
	Plugin string

	// PersistentVolume is the name of the PersistentVolume that it is, empty if it is none, or that is not known.
	PersistentVolume string

	// Path is the volume's place on the host, empty if it has none.
	Path string

	// ReadOnly says that containers can only read it.
	ReadOnly bool

	// Block says that it is a raw device (volumeMode Block), to which Path is a link.
	Block bool

	// SELinuxRelabel asks the container runtime to give the volume's files the container's SELinux label, see [Mount].
	SELinuxRelabel bool

	// State sums it up.
	State VolumeState

	// Err says why State is Failed or Pending. It is nil if State is Mounted.
	Err error

	// Warnings are what the plugin had to say although it went on, when it last set the volume up. [Inspect] does not know
	// them.
	Warnings []string

	// Running is the operation that is under way, nil if there is none, and in what [Inspect] returns.
	Running *RunningOperation

	// Failures counts the attempts that failed since the last one that did not, and since the pod changed. [Inspect] does
	// not know them.
	Failures int

	// NextTry is when the volume is tried again, zero if nothing is planned: there is no need, or no [Manager.Run].
	NextTry time.Time

	// Metrics tell how full the volume is, nil if they were not asked for or the plugin has none. In what [Manager.Status] returns
	// they are those of the last measurement, which Metrics.Time tells, nil before the first and while no [Manager.Run] is at work.
	// MetricsErr says why they could not be had, or not be had anew.
	Metrics    *volume.Metrics
	MetricsErr error
}

// Reason is the text of Err without the names of the volume and the pod, which whoever shows a status shows anyway. It is
// empty if Err is nil, and may have several lines.
func (v *VolumeStatus) Reason() string {
	err := v.Err
	if e, ok := err.(*volume.Error); ok {
		err = e.Err
	}
	return errorText(err)
}

// RunningOperation is an operation that is under way.
type RunningOperation struct {
	// Operation is what is being done.
	Operation Operation

	// Since is when it was begun.
	Since time.Time

	// FilesSeen and FilesChanged count the files of the volume that have been looked at so far, and those among them that were given
	// to the pod's fsGroup. They are zero for an operation that does not walk the files, and for one that has just begun to.
	FilesSeen, FilesChanged int64

	// Abandoned says that its deadline has passed but the plugin has not returned: nothing else is done to the volume until
	// it does, since calls for one volume must not overlap.
	Abandoned bool
}

// VolumeState sums up what has become of a volume.
type VolumeState string

const (
	// Mounted volumes are there, whole, at their path.
	Mounted VolumeState = "mounted"
	// Failed volumes are not served, or it cannot be told whether they are there.
	Failed VolumeState = "failed"
	// Pending volumes are not there yet, or not any more: they were not come to, or it was interrupted, or they wait for a
	// plugin.
	Pending VolumeState = "pending"
)

// ContainerStatus tells what a container gets of its pod's volumes.
type ContainerStatus struct {
	// Name is the container's.
	Name string

	// Mounts are those that can be had, parents before what is mounted inside them.
	Mounts []Mount

	// Devices are the raw devices that can be had, in the order in which the container lists them.
	Devices []Device

	// Missing are the mounts and devices that cannot be had, in the order in which the container lists them, mounts first.
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

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
