// SPDX-License-Identifier: Apache-2.0

package hardlimit

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/filesystem"
	"github.com/volumekit/volumekit/internal/loopdev"
)

// Grow raises the limit of dir to o.Bytes, while it is used. What has at least that much room is left alone. An image has to be
// mounted, as [Apply] leaves it; growing it then takes CAP_SYS_RESOURCE, and without it the error matches EPERM. Either way one
// that is too small for the bytes is grown by Apply when it mounts it.
func Grow(ctx context.Context, dir string, o Options) error {
	o = o.complete(dir)
	found, err := find(ctx, dir, o.Image)
	if err != nil {
		return err
	}
	switch {
	case found.Kind == Project:
		err = growProject(dir, o.Bytes)
	case found.Kind == Image && found.Mounted:
		err = o.growImage(ctx, dir)
	case found.Kind == Image:
		err = fmt.Errorf("its image is not mounted")
	default:
		err = fmt.Errorf("it has no limit: %w", os.ErrNotExist)
	}
	if err != nil {
		return fmt.Errorf("raise the limit of %s: %w", dir, err)
	}
	return nil
}

// growAttempts is more than are needed to get the size right.
const growAttempts = 4

// growImage makes the image larger until the bytes fit in. After a crash it goes on where it was.
func (o Options) growImage(ctx context.Context, dir string) error {
	for attempt := 0; ; attempt++ {
		has, err := capacity(dir)
		if err != nil || has >= o.Bytes {
			return err
		}
		if attempt == growAttempts {
			return fmt.Errorf("the image %s still has room for %d bytes only", o.Image, has)
		}
		s, length, err := o.inspect()
		if err != nil {
			return err
		}
		if err := o.extend(ctx, dir, max(length, grownSize(s, has, o.Bytes))); err != nil {
			return err
		}
	}
}

// extend makes the image so long, and its mounted file system, too.
func (o Options) extend(ctx context.Context, dir string, size uint64) error {
	device, mounted, err := mountedImage(ctx, dir, o.Image)
	if err != nil {
		return err
	}
	if !mounted {
		return fmt.Errorf("%s was unmounted meanwhile", dir)
	}
	if err := o.lengthen(ctx, device, size); err != nil {
		return err
	}
	return filesystem.Grow(ctx, o.Exec, device, dir, fileSystem)
}

// lengthen makes the image longer, and its device.
func (o Options) lengthen(ctx context.Context, device string, size uint64) error {
	file, err := os.OpenFile(o.Image, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if err := file.Truncate(int64(size)); err != nil {
		return err
	}
	if o.Preallocate {
		if err := allocate(file, size); err != nil {
			return err
		}
	}
	if err := file.Sync(); err != nil {
		return err
	}
	return loopdev.Refresh(ctx, device)
}

// growOffline grows the file system on a device that is not mounted, if the bytes do not fit in.
func (o Options) growOffline(ctx context.Context, device *loopdev.Handle) error {
	var has, free uint64
	for attempt := 0; ; attempt++ {
		s, length, err := o.inspect()
		if err != nil {
			return err
		}
		if attempt == 0 {
			var known bool
			if has, known = s.room(); !known {
				return nil
			}
		} else {
			has += s.freeBytes() - min(free, s.freeBytes()) // resize2fs leaves it to the kernel to tell the room
		}
		free = s.freeBytes()
		if has >= o.Bytes {
			return nil
		}
		if attempt == growAttempts {
			return fmt.Errorf("the image %s still has room for %d bytes only", o.Image, has)
		}
		if err := o.lengthen(ctx, device.Path, max(length, grownSize(s, has, o.Bytes))); err != nil {
			return err
		}
		if err := filesystem.Grow(ctx, o.Exec, device.Path, "", fileSystem); err != nil {
			return err
		}
	}
}

// inspect reads the superblock of the image, and how long it is.
func (o Options) inspect() (s superblock, length uint64, err error) {
	file, err := os.Open(o.Image)
	if err != nil {
		return s, 0, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return s, 0, err
	}
	s, err = readSuperblock(file)
	return s, uint64(info.Size()), err
}
