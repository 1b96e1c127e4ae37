// SPDX-License-Identifier: Apache-2.0

package loopdev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/abandon"
)

// Attach attaches a file, or a block device, to a loop device that is free. It does not look whether the file is attached to
// another one. On an error nothing is attached; where the file's server hangs beyond the end of ctx, that is so once it
// answers.
func Attach(ctx context.Context, backing string, o Options) (*Handle, error) {
	var outcome atomic.Pointer[Handle]
	var abandoned Handle // its address says so
	handle, err := abandon.Run(ctx, func() (*Handle, error) {
		handle, err := attach(ctx, backing, o)
		if err == nil && !outcome.CompareAndSwap(nil, handle) {
			detachNew(int(handle.file.Fd()))
			err = errors.Join(context.Cause(ctx), handle.Close())
		}
		return handle, err
	})
	if err != nil && !outcome.CompareAndSwap(nil, &abandoned) {
		return outcome.Load(), nil // both came at once
	}
	if err != nil {
		return nil, fmt.Errorf("attach %s to a loop device: %w", backing, err)
	}
	return handle, nil
}

func attach(ctx context.Context, backing string, o Options) (*Handle, error) {
	mode := unix.O_RDWR
	config := unix.LoopConfig{}
	if o.ReadOnly {
		mode = unix.O_RDONLY
		config.Info.Flags |= unix.LO_FLAGS_READ_ONLY
	}
	if o.DirectIO { // the kernel leaves it off where it cannot be
		config.Info.Flags |= unix.LO_FLAGS_DIRECT_IO
	}
	if o.Autoclear {
		config.Info.Flags |= unix.LO_FLAGS_AUTOCLEAR
	}
	name := o.Name
	if name == "" {
		name = backing
	}
	copy(config.Info.File_name[:len(config.Info.File_name)-2], name)

	// A named pipe would wait for a writer.
	file, err := openFile(backing, mode|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	defer unix.Close(file)
	config.Fd = uint32(file)
	control, err := openFile("/dev/loop-control", unix.O_RDWR)
	if err != nil {
		return nil, fmt.Errorf("there are no loop devices here, the kernel's module is missing, or /dev is a container's own: %w", err)
	}
	defer unix.Close(control)
	return configureFree(ctx, control, &config)
}

func openFile(path string, flags int) (fd int, err error) {
	err = retry(func() (err error) {
		fd, err = unix.Open(path, flags|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// configureFree goes on while somebody else takes the device that is free.
func configureFree(ctx context.Context, control int, config *unix.LoopConfig) (*Handle, error) {
	// A device that stays free but cannot be had is open exclusively: after so many attempts a new device is made, a few times.
	const attempts, devices = 10, 3
	busy := make(map[int]int)
	made := 0
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		number, err := command(control, unix.LOOP_CTL_GET_FREE, 0)
		if err != nil {
			return nil, fmt.Errorf("find a free one: %w", err)
		}
		if busy[number] >= attempts {
			if made == devices {
				return nil, fmt.Errorf("%w: somebody has /dev/loop%d open exclusively, and takes each new one", unix.EBUSY, number)
			}
			made++
			const any = -1
			if number, err = command(control, unix.LOOP_CTL_ADD, any); err != nil {
				return nil, fmt.Errorf("somebody has /dev/loop%d open exclusively; make another one: %w", number, err)
			}
		}
		handle, err := configure(ctx, number, config)
		if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENXIO) { // taken, or removed
			busy[number]++
			continue
		}
		return handle, err
	}
}

// command has the kernel find or make a device, and returns its number.
func command(control int, request uint, argument int) (number int, err error) {
	err = retry(func() error {
		n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(control), uintptr(request), uintptr(argument))
		number = int(n)
		if errno != 0 {
			return errno
		}
		return nil
	})
	return number, err
}

func configure(ctx context.Context, number int, config *unix.LoopConfig) (*Handle, error) {
	path := fmt.Sprintf("/dev/loop%d", number)
	fd, err := openNewNode(ctx, path)
	if err != nil {
		return nil, err
	}
	if err := retry(func() error { return unix.IoctlLoopConfigure(fd, config) }); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("configure %s: %w", path, err)
	}
	device, err := ask(fd, path)
	if err == nil && device.Number != number {
		err = fmt.Errorf("%s is the node of another device, loop%d", path, device.Number)
	}
	if err != nil {
		detachNew(fd)
		_ = unix.Close(fd)
		return nil, err
	}
	return newHandle(fd, device), nil
}

// openNewNode opens the node of a device that may be new: something else than devtmpfs may make its node a moment later.
func openNewNode(ctx context.Context, path string) (int, error) {
	for range 100 {
		fd, err := openNode(path, unix.O_RDWR)
		if !errors.Is(err, unix.ENOENT) {
			return fd, err
		}
		select {
		case <-ctx.Done():
			return -1, context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
	return -1, errNode(path)
}

// detachNew detaches what has just been attached.
func detachNew(fd int) {
	_ = retry(func() error { return unix.IoctlSetInt(fd, unix.LOOP_CLR_FD, 0) })
}
