// SPDX-License-Identifier: Apache-2.0

package loopdev

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Handle is a loop device that is held open: as long as it is, the device stays attached to the same file, whoever detaches it.
type Handle struct {
	Device
	file *os.File
}

// Close closes the device. One with Autoclear is detached, if nobody else has it open or mounted.
func (h *Handle) Close() error { return h.file.Close() }

// FileIDOf returns the ID of the file that path leads to.
func FileIDOf(path string) (FileID, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Stat(path, &st) }); err != nil {
		return FileID{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return FileID{Device: st.Dev, Inode: st.Ino}, nil
}

// Open opens a loop device that is attached. The error matches [fs.ErrNotExist] if it is not. Like stat, it hangs while the
// server of the file does not answer.
func Open(path string) (*Handle, error) {
	fd, device, err := open(path)
	if err != nil {
		return nil, err
	}
	return newHandle(fd, device), nil
}

func newHandle(fd int, device Device) *Handle {
	_ = unix.SetNonblock(fd, false) // an os.File would try to poll it
	return &Handle{Device: device, file: os.NewFile(uintptr(fd), device.Path)}
}

// open is Open without an os.File, which would have its descriptor polled first.
func open(path string) (int, Device, error) {
	fd, err := openNode(path, unix.O_RDONLY)
	switch {
	case errors.Is(err, unix.ENXIO): // the kernel has taken the device away
		return -1, Device{}, notAttached(path)
	case errors.Is(err, unix.ENOENT):
		return -1, Device{}, withoutNode(path)
	case err != nil:
		return -1, Device{}, err
	}
	device, err := ask(fd, path)
	if err != nil {
		_ = unix.Close(fd)
		return -1, Device{}, err
	}
	return fd, device, nil
}

// openNode opens the node of a loop device, and nothing else.
func openNode(path string, flags int) (int, error) {
	var fd int
	err := retry(func() (err error) {
		// Something else than a device may wait to be opened.
		fd, err = unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		return err
	})
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK || unix.Major(st.Rdev) != loopMajor {
		_ = unix.Close(fd)
		return -1, &fs.PathError{Op: "open", Path: path, Err: errors.Join(err, errors.New("this is no loop device"))}
	}
	return fd, nil
}

// loopMajor is in the kernel's list of devices for good.
const loopMajor = 7

// ask asks the kernel what a device is attached to.
func ask(fd int, path string) (Device, error) {
	var info *unix.LoopInfo64
	err := retry(func() (err error) {
		info, err = unix.IoctlLoopGetStatus64(fd)
		return err
	})
	if err == unix.ENXIO {
		return Device{}, notAttached(path)
	}
	if err != nil {
		return Device{}, &fs.PathError{Op: "ask loop device", Path: path, Err: err}
	}
	return Device{
		Path: path, Number: int(info.Number), Backing: FileID{Device: decodeDevice(info.Device), Inode: info.Inode},
		BackingName: unix.ByteSliceToString(info.File_name[:]), Offset: info.Offset, SizeLimit: info.Sizelimit,
		ReadOnly: info.Flags&unix.LO_FLAGS_READ_ONLY != 0, Autoclear: info.Flags&unix.LO_FLAGS_AUTOCLEAR != 0,
		DirectIO: info.Flags&unix.LO_FLAGS_DIRECT_IO != 0,
	}, nil
}

// decodeDevice returns a device number as stat has it: the kernel tells it in another coding here.
func decodeDevice(encoded uint64) uint64 {
	major := (encoded & 0xfff00) >> 8
	minor := encoded&0xff | (encoded>>12)&0xfff00
	return unix.Mkdev(uint32(major), uint32(minor))
}

func notAttached(path string) error {
	return &fs.PathError{Op: "loop device", Path: path, Err: fs.ErrNotExist}
}

// withoutNode explains a node that is missing: that says nothing about the device, which may be attached.
func withoutNode(path string) error {
	name := filepath.Base(path)
	switch err := unix.Access(filepath.Join(sysBlock, name, "loop"), unix.F_OK); {
	case err == nil:
		return errNode(path)
	case err != unix.ENOENT:
		return &fs.PathError{Op: "ask the kernel about loop device", Path: path, Err: err}
	}
	if err := unix.Access(sysBlock, unix.F_OK); err != nil {
		return fmt.Errorf("whether %s is attached cannot be told: %s: %v; is sysfs mounted?", path, sysBlock, err)
	}
	return notAttached(path)
}

// sysBlock has a link for each block device.
const sysBlock = "/sys/block"

// IsLoop reports whether the device number, as stat has it, is that of a loop device, and which. A partition of one is none.
func IsLoop(device uint64) (path string, ok bool) {
	if unix.Major(device) != loopMajor {
		return "", false
	}
	// The minor is not the device's number where the kernel's module has been told to leave room for partitions.
	target, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", loopMajor, unix.Minor(device)))
	if err != nil {
		return "", false
	}
	name := filepath.Base(target)
	if _, ok := numberOf(name); !ok {
		return "", false
	}
	return "/dev/" + name, true
}

// numberOf returns what stands in the name of a loop device.
func numberOf(name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, "loop")
	if !ok {
		return 0, false
	}
	number, err := strconv.Atoi(digits)
	return number, err == nil && number >= 0
}

// retry repeats a system call that a signal interrupted; the Go runtime sends itself signals to preempt goroutines.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
