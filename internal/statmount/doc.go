// SPDX-License-Identifier: Apache-2.0

// Package statmount calls statmount(2) and listmount(2), which Linux has had since 6.8: they tell of one mount, and of which
// there are, without a mount table to be read. On other systems, and where the kernel or a seccomp filter of a container does
// not let us, each function returns an error.
package statmount

// Mount is what is asked for of a mount, see [Fields].
type Mount struct {
	// ID is the mount's, and is never used again until the system is booted.
	ID uint64

	// With Basic. Parent is the ID of the mount that it is mounted in.
	Parent uint64
	// ShortID and ShortParent are the IDs of /proc/self/mountinfo, which are used again.
	ShortID, ShortParent uint32
	// Attributes are the MOUNT_ATTR_ flags of mount_setattr(2).
	Attributes uint64

	// With Superblock: the device, as stat(2) has it, and the SB_ flags, the values of which are those of MS_.
	Major, Minor    uint32
	SuperblockFlags uint32

	// Root is the directory of the file system that is mounted, with RootPath.
	Root string
	// Point is the mount point as it is seen from the root directory of the process, with PointPath.
	Point string
	// Type is that of the file system, with TypeName; for FUSE without the part after the dot.
	Type string
	// Source is what was given as the source when the file system was mounted first, with SourceName (since Linux 6.14).
	Source string
}

// Fields say what to find out. What a kernel does not know of, or a mount does not have, is left out without an error.
type Fields uint64

// These are the STATMOUNT_ flags of the kernel.
const (
	Superblock Fields = 0x1
	Basic      Fields = 0x2
	RootPath   Fields = 0x8
	PointPath  Fields = 0x10
	TypeName   Fields = 0x20
	SourceName Fields = 0x200
)
