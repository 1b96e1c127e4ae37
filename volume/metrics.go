// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"time"
)

// MetricsProvider is a Mounter that can tell how full its volume is.
type MetricsProvider interface {
	// Metrics measures the volume. It may walk every file of the volume; ctx ends that. It may be called concurrently.
	Metrics(context.Context) (Metrics, error)
}

// Metrics tell how full a volume is. Numbers that the plugin cannot tell are zero.
type Metrics struct {
	// Time is when the numbers were measured.
	Time time.Time

	// Used is what the volume's files occupy, in bytes.
	Used int64

	// Limit is what bounds the volume, in bytes: the size that its source asks for, or what the plugin made of it and of the
	// pod. Zero if nothing does.
	Limit int64

	// LimitEnforced says that the kernel refuses to let the volume grow beyond Limit.
	LimitEnforced bool

	// LimitedBy names what enforces Limit where a plugin had the choice: "project-quota", or "image" for a file system of the
	// volume's own in a file. Empty elsewhere.
	LimitedBy string

	// Capacity and Available are those of the file system that holds the volume, in bytes. Where the volume has no file
	// system of its own, other users of the file system share them.
	Capacity, Available int64

	// InodesUsed counts the volume's files.
	InodesUsed int64

	// Inodes and InodesFree are those of the file system that holds the volume.
	Inodes, InodesFree int64
}
