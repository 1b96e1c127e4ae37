// SPDX-License-Identifier: Apache-2.0

package loopdev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/abandon"
)

// Detach detaches the device, if it is still attached to the same file, under the same name if d has one: one that has become
// another's since is left alone. While somebody else has it open or mounted, it goes at the last close or unmount. It succeeds
// for a device that is not attached any more. As it is what undoes, it is tried for some seconds under a ctx that has ended
// already.
func Detach(ctx context.Context, d Device) error {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
	}
	_, err := abandon.Run(ctx, func() (struct{}, error) { return struct{}{}, detach(d) })
	if err != nil {
		return fmt.Errorf("detach loop device %s: %w", d.Path, err)
	}
	return nil
}

func detach(d Device) error {
	// While this is open nobody can attach the device to something else.
	fd, now, err := open(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if now.Backing != d.Backing || d.BackingName != "" && now.BackingName != d.BackingName {
		return nil // it is another's by now
	}
	err = retry(func() error { return unix.IoctlSetInt(fd, unix.LOOP_CLR_FD, 0) })
	if err == unix.ENXIO { // somebody else has begun to
		return nil
	}
	return err
}

// Refresh has the device take over the size of its file, which has grown. The error matches [fs.ErrNotExist] if it is not
// attached.
func Refresh(ctx context.Context, path string) error {
	_, err := abandon.Run(ctx, func() (struct{}, error) {
		fd, _, err := open(path)
		if err != nil {
			return struct{}{}, err
		}
		defer unix.Close(fd)
		return struct{}{}, retry(func() error { return unix.IoctlSetInt(fd, unix.LOOP_SET_CAPACITY, 0) })
	})
	if err != nil {
		return fmt.Errorf("have loop device %s take over the size of its file: %w", path, err)
	}
	return nil
}
