// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// loopMajor is the major number of loop devices.
const loopMajor = 7

// checkBacking returns an error unless the zeros that were read come from the file of the loop device, if this is one. Where that
// file has been cut, older kernels give zeros instead of an error.
func (d *device) checkBacking() error {
	fd := int(d.file.Fd())
	var node unix.Stat_t
	if err := unix.Fstat(fd, &node); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if !d.block || unix.Major(node.Rdev) != loopMajor {
		return nil
	}
	loop, err := unix.IoctlLoopGetStatus64(fd)
	if err != nil {
		return os.NewSyscallError("ioctl LOOP_GET_STATUS64", err)
	}
	name, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/loop/backing_file", loopMajor, unix.Minor(node.Rdev)))
	if err != nil {
		return err
	}
	path := strings.TrimSuffix(string(name), "\n")
	var backing unix.Stat_t
	err = unix.Stat(path, &backing)
	if err == nil && (backing.Dev != loop.Device || backing.Ino != loop.Inode) {
		err = unix.ENOENT // another file has its name
	}
	switch {
	case err != nil:
		return fmt.Errorf("only zeros are read, but its file %q cannot be seen, which may have been cut: %w", path, err)
	case backing.Mode&unix.S_IFMT == unix.S_IFREG && uint64(backing.Size) < loop.Offset+uint64(d.size):
		return fmt.Errorf("its file %q has been cut to %d bytes: %w", path, backing.Size, unix.EIO)
	}
	return nil
}
