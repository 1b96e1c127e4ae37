// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"fmt"
	"io/fs"
	"syscall"
)

// statText is what the FileInfo holds beyond its methods.
func statText(info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf(", device %d, inode %d, owner %d:%d, links %d, changed %d.%09d",
		stat.Dev, stat.Ino, stat.Uid, stat.Gid, stat.Nlink, stat.Ctim.Sec, stat.Ctim.Nsec)
}

// group is the group that owns the file.
func group(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Gid) }

// setUmask sets the umask of the process and returns the one before.
func setUmask(mask int) int { return syscall.Umask(mask) }
