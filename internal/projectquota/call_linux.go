// SPDX-License-Identifier: Apache-2.0

package projectquota

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What of linux/fs.h and linux/quota.h the package x/sys does not have.
const (
	project = 2 // PRJQUOTA

	getQuota     = 0x800007 // Q_GETQUOTA
	setQuota     = 0x800008 // Q_SETQUOTA
	getNextQuota = 0x800009 // Q_GETNEXTQUOTA
	getState     = 0x5808   // Q_XGETQSTATV

	stateVersion  = 1      // FS_QSTATV_VERSION1
	projectCounts = 1 << 4 // FS_QUOTA_PDQ_ACCT
	projectLimits = 1 << 5 // FS_QUOTA_PDQ_ENFD

	validLimits = 1 | 4 // QIF_BLIMITS | QIF_ILIMITS
	limitUnit   = 1024  // QIF_DQBLKSIZE, in bytes

	inherit = 0x200 // FS_XFLAG_PROJINHERIT
)

// The numbers of two ioctls hold the direction and the size; which bits are the direction depends on the architecture.
const (
	directionBits = 0xe0000000
	getAttributes = unix.FS_IOC_GETFLAGS&directionBits | attributesSize<<16 | 'X'<<8 | 31 // FS_IOC_FSGETXATTR
	setAttributes = unix.FS_IOC_SETFLAGS&directionBits | attributesSize<<16 | 'X'<<8 | 32 // FS_IOC_FSSETXATTR
)

const attributesSize = 28

// attributes are struct fsxattr.
type attributes struct {
	flags, extentSize, extents, project, cowExtentSize uint32
	_                                                  [8]byte
}

// quota is struct if_nextdqblk, the beginning of which is struct if_dqblk: the ID is written by getNextQuota only.
type quota struct {
	limit, softLimit           uint64 // in units of limitUnit
	bytes                      uint64
	inodeLimit, softInodeLimit uint64
	inodes                     uint64
	grace, inodeGrace          uint64
	valid                      uint32
	id                         uint32
}

// state is struct fs_quota_statv.
type state struct {
	version int8
	_       uint8
	flags   uint16
	_       [156]byte // what is not asked for
}

// attributesOf reads those of the file.
func attributesOf(fd int) (a attributes, err error) {
	return a, ioctl(fd, getAttributes, &a)
}

func ioctl(fd int, request uintptr, a *attributes) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(a)))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return os.NewSyscallError("ioctl", errno)
		}
	}
}

// quotactl asks the file system that the descriptor is on. Without quotactl_fd(2), which is of Linux 5.14 and which seccomp
// filters may not know, the file system is named by its block device.
func quotactl(fd int, command int, id uint32, address unsafe.Pointer) error {
	err := quotactlFD(fd, command, id, address)
	if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		return err
	}
	// ENOSYS is the answer of a file system without quotas, too.
	device, notFound := deviceOf(fd)
	if notFound != nil {
		return err
	}
	return quotactlDevice(device, command, id, address)
}

func quotactlFD(fd int, command int, id uint32, address unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(fd), uintptr(command<<8|project), uintptr(id), uintptr(address), 0, 0)
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return os.NewSyscallError("quotactl_fd", errno)
		}
	}
}

func quotactlDevice(device string, command int, id uint32, address unsafe.Pointer) error {
	name, err := unix.BytePtrFromString(device)
	if err != nil {
		return err
	}
	for {
		_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL, uintptr(command<<8|project), uintptr(unsafe.Pointer(name)),
			uintptr(id), uintptr(address), 0, 0)
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return fmt.Errorf("quotactl of %s: %w", device, errno)
		}
	}
}
