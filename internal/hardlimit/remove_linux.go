// SPDX-License-Identifier: Apache-2.0

package hardlimit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/loopdev"
	"github.com/volumekit/volumekit/internal/unmounting"
)

// maxStacked bounds how often an image is unmounted from one directory: it takes several processes to mount it even twice.
const maxStacked = 32

// Remove takes away the limit of dir: an image is unmounted and deleted, with everything that is in it; a project quota is
// lifted, and its files stay. The directory, empty or not, is left to the caller, who most often removes it next. Of the options
// Image, Mounter and Exec count.
//
// What else is mounted on dir stays. Where it covers the image, or where the image is in use, so that it cannot be unmounted, the
// image is not deleted, and the error matches [ErrInUse] or EBUSY.
func Remove(ctx context.Context, dir string, o Options) error {
	o = o.complete(dir)
	if err := o.removeImage(ctx, dir); err != nil {
		return fmt.Errorf("remove the limit of %s: %w", dir, err)
	}
	return Lift(ctx, dir)
}

// Lift takes a project quota away as [Remove] does, and leaves an image alone.
func Lift(ctx context.Context, dir string) error {
	hidden, err := isHidden(ctx, dir)
	if err == nil && !hidden {
		err = removeProject(dir)
	}
	// What is no directory has no limit, nor has what a process that may not even open it would have had to limit.
	for _, none := range []error{fs.ErrNotExist, unix.ENOTDIR, errors.ErrUnsupported, fs.ErrPermission} {
		if errors.Is(err, none) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("remove the limit of %s: %w", dir, err)
	}
	return nil
}

func (o Options) removeImage(ctx context.Context, dir string) error {
	for _, path := range []string{newPath(o.Image), o.Image} {
		exists, err := isFile(path)
		if err != nil {
			return err
		}
		if !exists {
			continue
		}
		if err := o.unmount(ctx, dir, path); err != nil {
			return err
		}
		if err := detach(ctx, dir, path); err != nil {
			return err
		}
		if err := removeFile(path); err != nil {
			return err
		}
	}
	return nil
}

// unmount unmounts an image from dir, as often as it is mounted there.
func (o Options) unmount(ctx context.Context, dir, image string) error {
	unmounter := unmounting.New(o.Mounter)
	for range maxStacked {
		_, mounted, err := mountedImage(ctx, dir, image)
		if err != nil || !mounted {
			return err
		}
		if _, err := unmounter.Unmount(ctx, dir); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s is still mounted after %d unmounts: %w", dir, maxStacked, ErrInUse)
}

// detach sees to it that the image's devices go. Those that other mount namespaces still have go with their last user.
func detach(ctx context.Context, dir, image string) error {
	id, err := loopdev.FileIDOf(image)
	if err != nil {
		return err
	}
	devices, err := loopdev.Find(ctx, id)
	if err != nil || len(devices) == 0 {
		return err
	}
	if err := notMounted(ctx, dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // it may cover the image
	}
	for _, device := range devices {
		if err := loopdev.Detach(ctx, device); err != nil {
			return err
		}
	}
	return nil
}
