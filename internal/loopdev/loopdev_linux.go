// SPDX-License-Identifier: Apache-2.0

package loopdev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Handle is a loop device that is held open.
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

// Attach attaches a file, or a block device, to a loop device that is free. It does not look whether the file is attached to another
// one. On an error nothing is attached.
func Attach(ctx context.Context, backing string, o Options) (*Handle, error) {
	flags := os.O_RDWR
	if o.ReadOnly {
		flags = os.O_RDONLY
	}
	file, err := os.OpenFile(backing, flags|unix.O_NONBLOCK, 0) // a named pipe would wait for a writer
	if err != nil {
		return nil, err
	}
	defer file.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("there are no loop devices here: %w", err)
	}
	defer control.Close()
	config := unix.LoopConfig{Fd: uint32(file.Fd())}
	for flag, set := range map[uint32]bool{unix.LO_FLAGS_READ_ONLY: o.ReadOnly, unix.LO_FLAGS_DIRECT_IO: o.DirectIO, unix.LO_FLAGS_AUTOCLEAR: o.Autoclear} {
		if set {
			config.Info.Flags |= flag
		}
	}
	name := o.Name
	if name == "" {
		name = backing
	}
	copy(config.Info.File_name[:len(config.Info.File_name)-2], name)
	for {
		handle, err := attachFree(int(control.Fd()), &config)
		if err == nil {
			return handle, nil
		}
		// Somebody else has taken the free device.
		if !errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("attach %s to a loop device: %w", backing, err)
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("attach %s to a loop device: %w", backing, context.Cause(ctx))
		}
	}
}

func attachFree(control int, config *unix.LoopConfig) (*Handle, error) {
	number, err := retryInt(func() (int, error) { return unix.IoctlRetInt(control, unix.LOOP_CTL_GET_FREE) })
	if err != nil {
		return nil, fmt.Errorf("find a free one: %w", err)
	}
	path := fmt.Sprintf("/dev/loop%d", number)
	device, err := openNode(path)
	if err != nil {
		return nil, err
	}
	if err := retry(func() error { return unix.IoctlLoopConfigure(int(device.Fd()), config) }); err != nil {
		_ = device.Close()
		return nil, fmt.Errorf("configure %s: %w", path, err)
	}
	handle, err := handleOf(path, device)
	if err != nil {
		_ = retry(func() error { return unix.IoctlSetInt(int(device.Fd()), unix.LOOP_CLR_FD, 0) })
		_ = device.Close()
	}
	return handle, err
}

// openNode opens the node of a loop device. That of a new one may be made a moment later than the device.
func openNode(path string) (*os.File, error) {
	for range 100 {
		device, err := os.OpenFile(path, os.O_RDWR, 0)
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENXIO) {
			return device, err
		}
		time.Sleep(time.Millisecond)
	}
	device, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, errNode(path, err)
	}
	return device, nil
}

// Open opens a loop device that is attached. The error matches [fs.ErrNotExist] if it is not.
func Open(path string) (*Handle, error) {
	device, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	handle, err := handleOf(path, device)
	if err != nil {
		_ = device.Close()
	}
	return handle, err
}

// handleOf asks the kernel what a device is attached to.
func handleOf(path string, device *os.File) (*Handle, error) {
	var info *unix.LoopInfo64
	err := retry(func() (err error) {
		info, err = unix.IoctlLoopGetStatus64(int(device.Fd()))
		return err
	})
	if err == unix.ENXIO {
		return nil, &fs.PathError{Op: "loop device", Path: path, Err: fs.ErrNotExist}
	}
	if err != nil {
		return nil, &fs.PathError{Op: "ask loop device", Path: path, Err: err}
	}
	name, _, _ := strings.Cut(string(info.File_name[:]), "\x00")
	return &Handle{file: device, Device: Device{
		Path: path, Number: int(info.Number), Backing: FileID{Device: decodeDevice(info.Device), Inode: info.Inode}, BackingName: name,
		Offset: info.Offset, SizeLimit: info.Sizelimit,
		ReadOnly: info.Flags&unix.LO_FLAGS_READ_ONLY != 0, Autoclear: info.Flags&unix.LO_FLAGS_AUTOCLEAR != 0, DirectIO: info.Flags&unix.LO_FLAGS_DIRECT_IO != 0,
	}}, nil
}

// decodeDevice returns a device number as stat has it: the kernel tells it in another coding here.
func decodeDevice(encoded uint64) uint64 {
	major := (encoded & 0xfff00) >> 8
	minor := encoded&0xff | (encoded>>12)&0xfff00
	return unix.Mkdev(uint32(major), uint32(minor))
}

// Find returns the loop devices that are attached to the file, in the order of their numbers.
func Find(ctx context.Context, id FileID) ([]Device, error) {
	return find(ctx, func(d *Device) bool { return d.Backing == id })
}

// FindNamed returns the loop devices that were attached with the name, in the order of their numbers.
func FindNamed(ctx context.Context, name string) ([]Device, error) {
	return find(ctx, func(d *Device) bool { return d.BackingName == name })
}

func find(ctx context.Context, match func(*Device) bool) ([]Device, error) {
	attached, err := filepath.Glob("/sys/block/loop*/loop")
	if err != nil {
		return nil, err
	}
	var found []Device
	for _, path := range attached {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		handle, err := Open("/dev/" + filepath.Base(filepath.Dir(path)))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENXIO) {
			continue // detached a moment ago
		}
		if err != nil {
			return nil, err
		}
		if match(&handle.Device) {
			found = append(found, handle.Device)
		}
		if err := handle.Close(); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, func(a, b Device) int { return a.Number - b.Number })
	return found, nil
}

// Detach detaches the device, if it is still attached to the same file. While somebody else has it open or mounted, it goes at the
// last close. It succeeds for a device that is not attached any more.
func Detach(_ context.Context, d Device) error {
	handle, err := Open(d.Path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENXIO) {
		return nil
	}
	if err != nil {
		return err
	}
	defer handle.Close()
	if handle.Backing != d.Backing {
		return nil // it is another's by now
	}
	err = retry(func() error { return unix.IoctlSetInt(int(handle.file.Fd()), unix.LOOP_CLR_FD, 0) })
	if err != nil && err != unix.ENXIO {
		return &fs.PathError{Op: "detach loop device", Path: d.Path, Err: err}
	}
	return nil
}

// Refresh has the device take over the size of its file, which has grown.
func Refresh(_ context.Context, path string) error {
	handle, err := Open(path)
	if err != nil {
		return err
	}
	defer handle.Close()
	if err := retry(func() error { return unix.IoctlSetInt(int(handle.file.Fd()), unix.LOOP_SET_CAPACITY, 0) }); err != nil {
		return &fs.PathError{Op: "have loop device grow", Path: path, Err: err}
	}
	return nil
}

// IsLoop reports whether the device number, as stat has it, is that of a loop device, and which.
func IsLoop(device uint64) (path string, ok bool) {
	const loopMajor = 7
	if unix.Major(device) != loopMajor {
		return "", false
	}
	return "/dev/loop" + strconv.Itoa(int(unix.Minor(device))), true
}

// retry repeats a system call that a signal interrupted; the Go runtime sends itself signals to preempt goroutines.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

func retryInt(call func() (int, error)) (n int, err error) {
	err = retry(func() (err error) {
		n, err = call()
		return err
	})
	return n, err
}
