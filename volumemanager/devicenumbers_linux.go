// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// deviceNumbers returns the numbers of a block device, and its permissions.
func deviceNumbers(path string) (major, minor int64, mode os.FileMode, err error) {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return 0, 0, 0, err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFBLK {
		return 0, 0, 0, errors.New("it is no block device")
	}
	return int64(unix.Major(stat.Rdev)), int64(unix.Minor(stat.Rdev)), os.FileMode(stat.Mode & 0o777), nil
}
