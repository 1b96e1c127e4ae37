// SPDX-License-Identifier: Apache-2.0

// Package projectquota limits directories with the project quotas of ext4 and xfs: every file has a project ID, which what is
// made in a directory takes over from it, and the kernel counts and limits what the files of a project occupy.
//
// The file system has to be mounted with the option prjquota (an ext4 has to have the features quota and project too). It
// takes CAP_SYS_ADMIN in the initial user namespace.
//
// What the kernel says to who hits the limit is EDQUOT on ext4 and ENOSPC on xfs. On ext4 a process with CAP_SYS_RESOURCE in the
// initial user namespace is not limited, which means root, but no container that is not privileged; on xfs everybody is.
package projectquota

// The IDs that [FreeID] gives, beyond those that administrators and other programs use, which count from below.
const (
	FirstID uint32 = 1 << 30
	LastID  uint32 = 1<<31 - 1
)

// Ours says whether the ID is one that [FreeID] could have given.
func Ours(id uint32) bool { return id >= FirstID && id <= LastID }

// Usage is what the files of a project occupy, and what they may. It was counted by the kernel all along, so that asking takes
// the same time for one file and a million.
type Usage struct {
	// Bytes are those allocated, and Inodes counts the files of any kind, the project's directory among them.
	Bytes, Inodes uint64

	// Limit and InodeLimit are the most that the kernel lets them become; 0 where there is no limit.
	Limit, InodeLimit uint64
}
