// SPDX-License-Identifier: Apache-2.0

package descent

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Entry is one name in a directory, as the directory was read. It is valid until the function that it was given to returns.
//
// Its calls take the descriptor of the directory that the name is in, follow no symbolic link and trigger no automount. They
// hand the kernel the name where it was read to: in a directory of many files, copies of the names would cost a tenth of the
// time. The errors are bare, of type unix.Errno.
type Entry struct {
	// Type is one of unix.DT_DIR, unix.DT_REG and so on, or unix.DT_UNKNOWN where the file system does not tell. It is that
	// of the time of reading, and of what is beneath if something is mounted there.
	Type byte

	name []byte // with the zero at its end
}

// Name returns a copy of the name, which may hold any bytes but "/" and zero.
func (e Entry) Name() string { return string(e.name[:len(e.name)-1]) }

// Statx is statx(2). Nothing is synchronised for it (AT_STATX_DONT_SYNC): a network file system answers from what the kernel
// knows, and a mount point answers although its server is gone.
func (e Entry) Statx(dir int, mask uint32, st *unix.Statx_t) error {
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	return e.call(unix.SYS_STATX, dir, flags, uintptr(mask), uintptr(unsafe.Pointer(st)))
}

// Chgrp gives the entry itself to a group, be it a symbolic link; the owner stays. The kernel takes the setuid bit from what
// is no directory, and the setgid bit where the group may execute it.
func (e Entry) Chgrp(dir int, group uint32) error {
	const owner = ^uint32(0) // as it is
	return e.call(unix.SYS_FCHOWNAT, dir, uintptr(owner), uintptr(group), unix.AT_SYMLINK_NOFOLLOW)
}

// Chmod sets the permissions of the entry itself; for a symbolic link the error is EOPNOTSUPP. It needs fchmodat2(2): before
// Linux 6.6, and under a seccomp filter that hides it, the error is ENOSYS.
func (e Entry) Chmod(dir int, mode uint32) error {
	return e.call(unix.SYS_FCHMODAT2, dir, uintptr(mode), unix.AT_SYMLINK_NOFOLLOW, 0)
}

//go:uintptrescapes
func (e Entry) call(number uintptr, dir int, a, b, c uintptr) error {
	for {
		_, _, errno := unix.Syscall6(number, uintptr(dir), uintptr(unsafe.Pointer(&e.name[0])), a, b, c, 0)
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}

// The layout of struct linux_dirent64, see getdents(2).
const (
	direntLength = 16
	direntType   = 18
	direntName   = 19
)

// nextEntry takes the first entry from what getdents64(2) read, which is not empty.
func nextEntry(batch []byte) (e Entry, rest []byte) {
	length := int(binary.NativeEndian.Uint16(batch[direntLength:]))
	name := batch[direntName:length]
	for i, c := range name {
		if c == 0 {
			name = name[:i+1]
			break
		}
	}
	return Entry{Type: batch[direntType], name: name}, batch[length:]
}

// isDots says whether the entry is "." or "..".
func (e Entry) isDots() bool {
	return e.name[0] == '.' && (len(e.name) == 2 || e.name[1] == '.' && len(e.name) == 3)
}

// getdents reads the next entries of a directory. It returns 0 at its end, and for a directory that was removed.
func getdents(dir int, buf []byte) (n int, err error) {
	err = retry(func() (err error) {
		n, err = unix.Getdents(dir, buf)
		return err
	})
	switch err {
	case nil:
		return n, nil
	case unix.ENOENT, unix.ESTALE: // ESTALE: removed on the server of a network file system
		return 0, nil
	}
	return 0, err
}
