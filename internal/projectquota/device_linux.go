// SPDX-License-Identifier: Apache-2.0

package projectquota

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// deviceOf returns the path of the block device of the file system that the descriptor is on.
func deviceOf(fd int) (string, error) {
	var file unix.Stat_t
	if err := unix.Fstat(fd, &file); err != nil {
		return "", os.NewSyscallError("fstat", err)
	}
	major, minor := unix.Major(uint64(file.Dev)), unix.Minor(uint64(file.Dev))
	// The kernel's own name of it, under which udev or devtmpfs makes the node. It is the cheap way, and nearly always there.
	if name, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", major, minor)); err == nil {
		if path := filepath.Join("/dev", filepath.Base(name)); isDevice(path, uint64(file.Dev)) {
			return path, nil
		}
	}
	mounts, err := mountinfo.GetMounts(func(info *mountinfo.Info) (skip, stop bool) {
		return info.Major != int(major) || info.Minor != int(minor), false
	})
	if err != nil {
		return "", fmt.Errorf("read the mount table: %w", err)
	}
	for _, mount := range mounts {
		if isDevice(mount.Source, uint64(file.Dev)) {
			return mount.Source, nil
		}
	}
	return "", fmt.Errorf("there is no node of the block device %d:%d", major, minor)
}

func isDevice(path string, number uint64) bool {
	var node unix.Stat_t
	return unix.Stat(path, &node) == nil && node.Mode&unix.S_IFMT == unix.S_IFBLK && uint64(node.Rdev) == number
}
