// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Mounter makes one volume available to one pod. A Mounter is cheap, holds no resources, and is used by one goroutine at
// a time. More than that: calls for one volume of one pod, be it by Mounters or Unmounters, never overlap, which is for those
// who make them to see to (package volumemanager does). Calls for different volumes may.
type Mounter interface {
	// Path is where the volume is on the host once SetUp has returned nil: the source of the container's bind mount.
	Path() string

	// Attributes tells how the volume may be used. It does no I/O. Like Path it has its final answer once SetUp has
	// returned nil, or Presence has found the volume.
	Attributes() Attributes

	// SetUp makes the volume available at Path. On a volume that is already set up it changes nothing and returns nil;
	// after a crash, or an error, the same call goes on from what is there. An error that matches [ErrUncertain] leaves
	// open whether the volume is there; after any other error nothing is in use, though TearDown may have to clean up.
	// After TearDown has begun, it has to succeed before SetUp is called again.
	SetUp(context.Context, SetUpOptions) error

	// Presence tells whether what SetUp makes is there: [Present] only if it is whole and is what it should be (the right
	// mount, not a bare mount point), [Unknown] when that cannot be found out. The error explains Unknown and is nil for
	// the other two.
	Presence(context.Context) (Presence, error)
}

// SetUpOptions are what the pod, rather than the volume, has to say about SetUp. The zero value asks for nothing.
type SetUpOptions struct {
	// FSGroup is the pod's securityContext.fsGroup: the group that owns the volume, with the setgid bit, where
	// [Attributes.Managed] says that ownership is the plugin's business. Nil leaves ownership alone.
	FSGroup *int64

	// FSGroupChangePolicy is the pod's securityContext.fsGroupChangePolicy; nil means Always. It matters only to volumes
	// that may hold files from before the pod.
	FSGroupChangePolicy *v1.PodFSGroupChangePolicy

	// SELinuxLabel is the label that all files of the volume shall show, by the mount option "context". It is set only for a
	// volume for which [SELinuxMountVolumePlugin] says that it can be mounted so.
	SELinuxLabel string

	// Warn is called, during SetUp and by its goroutine, with what the user should know although SetUp goes on: a
	// sentence without the names of volume and pod, which the caller knows. Nil drops it.
	Warn func(message string)
}

// Warnf calls Warn, if there is one, with the text that fmt.Sprintf makes.
func (o SetUpOptions) Warnf(format string, args ...any) {
	if o.Warn != nil {
		o.Warn(fmt.Sprintf(format, args...))
	}
}

// Refresher is a Mounter of a volume whose content follows what can change while the volume is in use. SetUp of a volume that is
// set up brings it up to date, atomically for who reads it, or leaves it whole as it is.
type Refresher interface {
	Mounter

	// References lists the objects that the content comes from, whether they exist or not. It does no I/O.
	References() []Reference

	// RefreshTime is when SetUp has to be called again though no object has changed, because something in the volume expires.
	// It is zero if nothing does, and has its answer once SetUp has returned nil.
	RefreshTime() time.Time
}

// Attributes tell how a volume may be used.
type Attributes struct {
	// ReadOnly: a container can mount the volume read-only and in no other way.
	ReadOnly bool

	// Managed: the volume's files belong to the pod, and SetUp gives them to the pod's fsGroup.
	Managed bool

	// FSGroupWalk: the volume's files belong to the pod, and SetUp does not give them to the pod's fsGroup, since there may be
	// any number of them from before the pod. Whoever calls SetUp does so afterwards, as the pod's fsGroupChangePolicy says;
	// package volumemanager does. Managed is false then.
	FSGroupWalk bool

	// SELinuxRelabel: the container runtime may relabel the volume's files for the container.
	SELinuxRelabel bool
}

// Unmounter takes one volume away from one pod. It is used by one goroutine at a time.
type Unmounter interface {
	// Path is where the volume was.
	Path() string

	// TearDown takes away what SetUp made. It succeeds, and leaves nothing, for what is absent, half there, unmounted by
	// hand or left by a reboot, and can be repeated until it returns nil. What somebody else mounted inside the volume is
	// neither entered nor unmounted: the error matches [ErrInUse] and names the mount points, and the same call finishes
	// once they are gone.
	TearDown(context.Context, TearDownOptions) error
}

// TearDownOptions are what the caller has to say about TearDown. The zero value asks for nothing.
type TearDownOptions struct {
	// Warn is called, during TearDown and by its goroutine, with what the user should know although TearDown goes on, such
	// as that an unmount needed force: a sentence without the names of volume and pod, which the caller knows. Nil drops it.
	Warn func(message string)
}

// Warnf calls Warn, if there is one, with the text that fmt.Sprintf makes.
func (o TearDownOptions) Warnf(format string, args ...any) {
	if o.Warn != nil {
		o.Warn(fmt.Sprintf(format, args...))
	}
}

// Presence is the answer of a check. There are three: nothing may be removed, formatted, detached or declared gone on
// Unknown.
type Presence int

const (
	// Unknown says that the check found no answer: an error, a timeout, a cache that is not filled.
	Unknown Presence = iota
	// Absent says that it is proved not to be there.
	Absent
	// Present says that it is proved to be there.
	Present
)

// String returns "unknown", "absent" or "present".
func (p Presence) String() string {
	switch p {
	case Absent:
		return "absent"
	case Present:
		return "present"
	}
	return "unknown"
}
