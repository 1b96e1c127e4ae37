// SPDX-License-Identifier: Apache-2.0

package statmount

import (
	"bytes"
	"encoding/binary"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// request is struct mnt_id_req of linux/mount.h, version 0.
type request struct {
	size  uint32
	spare uint32
	id    uint64
	param uint64
}

const requestSize = 24

// fixedSize is the part of struct statmount before the strings.
const fixedSize = 512

// largest is more than any mount needs: two paths and two names.
const largest = 1 << 20

// Where the members of struct statmount are.
const (
	atMask           = 8
	atMajor          = 16
	atMinor          = 20
	atSuperblockFlag = 32
	atType           = 36
	atParent         = 48
	atShortID        = 56
	atShortParent    = 60
	atAttributes     = 64
	atRoot           = 104
	atPoint          = 108
	atSource         = 124
)

// Get tells of the mount with that ID. It matches [unix.ENOENT] if there is none in the mount namespace, be it that it was
// unmounted lazily and is still in use. No server is asked.
func Get(id uint64, fields Fields) (Mount, error) {
	var small [2048]byte
	for buf := small[:]; ; buf = make([]byte, 4*len(buf)) {
		req := request{size: requestSize, id: id, param: uint64(fields)}
		_, _, errno := unix.Syscall6(unix.SYS_STATMOUNT, uintptr(unsafe.Pointer(&req)),
			uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0, 0, 0)
		switch {
		case errno == 0:
			return parse(id, buf), nil
		case errno != unix.EINTR && errno != unix.EOVERFLOW || len(buf) >= largest:
			return Mount{}, os.NewSyscallError("statmount", errno)
		}
	}
}

func parse(id uint64, buf []byte) Mount {
	is := Fields(binary.NativeEndian.Uint64(buf[atMask:]))
	number := func(at int) uint32 { return binary.NativeEndian.Uint32(buf[at:]) }
	text := func(field Fields, at int) string {
		if is&field == 0 {
			return ""
		}
		from := buf[fixedSize+int(number(at)):]
		return string(from[:bytes.IndexByte(from, 0)])
	}
	m := Mount{ID: id}
	if is&Superblock != 0 {
		m.Major, m.Minor, m.SuperblockFlags = number(atMajor), number(atMinor), number(atSuperblockFlag)
	}
	if is&Basic != 0 {
		m.Parent = binary.NativeEndian.Uint64(buf[atParent:])
		m.ShortID, m.ShortParent = number(atShortID), number(atShortParent)
		m.Attributes = binary.NativeEndian.Uint64(buf[atAttributes:])
	}
	m.Root, m.Point = text(RootPath, atRoot), text(PointPath, atPoint)
	m.Type, m.Source = text(TypeName, atType), text(SourceName, atSource)
	return m
}

// List appends to ids, which may be nil, the IDs of all mounts that can be reached from the root directory of the process, in
// ascending order, which is that of their making.
func List(ids []uint64) ([]uint64, error) {
	const all = ^uint64(0) // LSMT_ROOT
	req := request{size: requestSize, id: all}
	for {
		if cap(ids)-len(ids) < 64 {
			ids = append(make([]uint64, 0, max(256, 2*cap(ids))), ids...)
		}
		free := ids[len(ids):cap(ids)]
		n, _, errno := unix.Syscall6(unix.SYS_LISTMOUNT, uintptr(unsafe.Pointer(&req)),
			uintptr(unsafe.Pointer(&free[0])), uintptr(len(free)), 0, 0, 0)
		switch {
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return ids, os.NewSyscallError("listmount", errno)
		}
		ids = ids[:len(ids)+int(n)]
		if int(n) < len(free) {
			return ids, nil
		}
		req.param = ids[len(ids)-1] // go on after it
	}
}
