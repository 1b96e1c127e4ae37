// SPDX-License-Identifier: Apache-2.0

//go:build unix

package atomicwriter

import (
	"io/fs"
	"syscall"
)

// isOwner reports whether the user and the group own a file; nil stands for anybody.
func isOwner(info fs.FileInfo, user, group *int64) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (user == nil || *user == int64(stat.Uid)) && (group == nil || *group == int64(stat.Gid))
}
