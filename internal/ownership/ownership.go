// SPDX-License-Identifier: Apache-2.0

// Package ownership gives the content of a volume to a group, which is what the fsGroup of a pod asks for.
//
// The containers of other pods may be writing to the volume meanwhile. So nothing beneath it is looked up by path, no symbolic
// link is followed, and nothing that is mounted there is entered or changed.
package ownership

import "time"

// Options say what is done. The zero value gives a volume that can be written to root's group.
type Options struct {
	// Group is who owns everything afterwards, a group ID.
	Group int64

	// OnRootMismatch leaves everything as it is if the volume's root directory belongs to the group already and has the
	// permissions that Apply would give it. This is the policy of that name of a pod; without it the policy is Always.
	OnRootMismatch bool

	// ReadOnly is for a volume that containers cannot write to: the group is allowed to read, not to write.
	ReadOnly bool

	// Progress is called from time to time while there is much to do, by one goroutine at a time and never after Apply has
	// returned. Apply does not return while it runs. It may be nil.
	Progress func(Progress)

	// ProgressPeriod is the time between two calls of Progress and before the first; zero stands for a second.
	ProgressPeriod time.Duration
}

// Progress is how far a walk has come. How far it has to go nobody knows.
type Progress struct {
	// Seen is the number of entries that have been looked at, and Changed that of those among them that were not right.
	Seen, Changed int64
}

// Result is what was done.
type Result struct {
	// Seen is the number of entries that were looked at, the root among them, and Changed that of those that were changed.
	Seen, Changed int64

	// Skipped says that [Options.OnRootMismatch] was given and the root matched, so that nothing else was looked at.
	Skipped bool
}

// defaultProgressPeriod stands for a ProgressPeriod of zero.
const defaultProgressPeriod = time.Second
