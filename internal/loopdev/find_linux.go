// SPDX-License-Identifier: Apache-2.0

package loopdev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/abandon"
)

// Find returns the loop devices that are attached to the file, in the order of their numbers. The ID may be one that was
// remembered: the file's name, and its size, do not matter. An error says that it is not known; a device whose file's server
// hangs is one until the end of ctx.
func Find(ctx context.Context, id FileID) ([]Device, error) {
	return find(ctx, func(d *Device) bool { return d.Backing == id })
}

// FindNamed returns the loop devices that were attached with the name, in the order of their numbers.
func FindNamed(ctx context.Context, name string) ([]Device, error) {
	return find(ctx, func(d *Device) bool { return d.BackingName == name })
}

func find(ctx context.Context, match func(*Device) bool) ([]Device, error) {
	var asking atomic.Int64
	asking.Store(-1)
	found, err := abandon.Run(ctx, func() ([]Device, error) {
		numbers, err := attached()
		if err != nil {
			return nil, err
		}
		var found []Device
		for _, number := range numbers {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			asking.Store(int64(number))
			fd, device, err := open("/dev/loop" + strconv.Itoa(number))
			if errors.Is(err, fs.ErrNotExist) {
				continue // detached a moment ago
			}
			if err != nil {
				return nil, err
			}
			_ = unix.Close(fd)
			if device.Number != number {
				return nil, fmt.Errorf("%s is the node of another device, loop%d", device.Path, device.Number)
			}
			if match(&device) {
				found = append(found, device)
			}
		}
		return found, nil
	})
	if err != nil && ctx.Err() != nil && asking.Load() >= 0 {
		err = fmt.Errorf("waiting for /dev/loop%d to answer: %w", asking.Load(), err)
	}
	if err != nil {
		return nil, fmt.Errorf("find a loop device: %w", err)
	}
	return found, nil
}

// attached returns the numbers of the devices that are attached to something, in order.
func attached() ([]int, error) {
	dir, err := os.Open(sysBlock)
	if err != nil {
		return nil, fmt.Errorf("%w; is sysfs mounted?", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, name := range names {
		number, ok := numberOf(name)
		if !ok {
			continue
		}
		switch err := unix.Faccessat(int(dir.Fd()), name+"/loop", unix.F_OK, 0); err {
		case nil:
			numbers = append(numbers, number)
		case unix.ENOENT:
		default:
			return nil, &fs.PathError{Op: "access", Path: sysBlock + "/" + name + "/loop", Err: err}
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}
