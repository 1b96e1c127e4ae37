// SPDX-License-Identifier: Apache-2.0

package mounter

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Unmount takes away the mount on target, the uppermost if there are several. The last element of target is not followed
// if it is a symbolic link. Where nothing is mounted, the error matches [unix.EINVAL]; where the mount is in use,
// [unix.EBUSY].
func (m *Mounter) Unmount(target string) error { return unmount(target, 0) }

func unmount(target string, flags int) error {
	err := ignoringEINTR(func() error { return unix.Unmount(target, flags|unix.UMOUNT_NOFOLLOW) })
	switch err {
	case nil:
		return nil
	case unix.EINVAL:
		err = fmt.Errorf("%w: not a mount point", err)
	case unix.EBUSY:
		err = fmt.Errorf("%w: in use (open files, working directories, or mounts inside)", err)
	case unix.EPERM:
		err = fmt.Errorf("%w%s", err, hint(err))
	}
	return &os.PathError{Op: "unmount", Path: target, Err: err}
}
