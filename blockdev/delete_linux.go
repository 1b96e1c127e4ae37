// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/loopdev"
	"github.com/volumekit/volumekit/volume"
)

// delete deletes the image. After a crash the same call goes on.
func (i image) delete(ctx context.Context) error {
	base, err := i.openBase(ctx, false)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the base path is missing, so nothing is known of what is in it: mount its disk, or make it again: %w", err)
	}
	if err != nil {
		return err
	}
	defer base.Close()
	dir, err := i.openDirectory(base, false)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if dir != nil {
		defer dir.Close()
	}
	unlock, err := i.lock(ctx, base, false)
	if errors.Is(err, fs.ErrNotExist) {
		return i.refuseForeign(dir)
	}
	if err != nil {
		return err
	}
	defer unlock()
	r, err := i.read()
	switch {
	case err != nil:
		return err
	case r == nil:
		return i.refuseForeign(dir)
	case r.Below != i.below:
		return volume.Errorf(volume.ErrInvalid, "it was provisioned at %s", image{i.base, r.Below, i.name}.path())
	}
	if dir != nil {
		if err := i.deleteFile(ctx, dir, r); err != nil {
			return err
		}
		if err := i.removeUnfinished(dir); err != nil {
			return err
		}
		if err := dir.Sync(); err != nil {
			return err
		}
	}
	return i.forget()
}

// refuseForeign refuses a file of which nothing is recorded. That there is none is a success.
func (i image) refuseForeign(dir *os.File) error {
	if dir == nil {
		return nil
	}
	if _, err := idAt(dir, i.fileName()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return volume.Errorf(volume.ErrInvalid, "it was not provisioned: it has no record at %s", i.recordPath())
}

// deleteFile deletes the image that has its name.
func (i image) deleteFile(ctx context.Context, dir *os.File, r *imageRecord) error {
	f, err := openAt(dir, i.fileName(), unix.O_RDWR)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO), errors.Is(err, unix.EISDIR), errors.Is(err, unix.EXDEV):
		return volume.Errorf(volume.ErrInvalid, "another file is there than the one that was provisioned: %w", err)
	case err != nil:
		return err
	}
	defer f.Close()
	if id, err := idOf(f); err != nil || id != r.File {
		return errors.Join(volume.Errorf(volume.ErrInvalid, "another file is there than the one that was provisioned: move it away"), ignoring(err, errNotRegular))
	}
	// Whoever attaches it to a loop device has the same lock.
	if err := flock(ctx, f); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	devices, err := devicesThatStay(ctx, loopdev.FileID{Device: st.Dev, Inode: st.Ino})
	if err != nil {
		return err
	}
	if len(devices) > 0 {
		return volume.Errorf(volume.ErrInUse, "%s has it: unmount or detach that first", devices[0])
	}
	if !r.Deleting {
		r.Deleting = true
		if err := i.write(r); err != nil {
			return err
		}
	}
	if r.ScrubOnDelete {
		if err := scrub(ctx, f, st.Size); err != nil {
			return err
		}
	}
	return unlinkAt(dir, i.fileName())
}

const (
	// autoclearPatience is how often a device is looked at that is to go when nobody has it open any more, and autoclearPause how
	// long is waited in between: whoever looks through all loop devices has it open for a moment, and holds it up.
	autoclearPatience = 100
	autoclearPause    = 10 * time.Millisecond
)

// devicesThatStay returns the loop devices of a file, but for those that are about to go.
func devicesThatStay(ctx context.Context, id loopdev.FileID) ([]loopdev.Device, error) {
	for attempt := 1; ; attempt++ {
		devices, err := loopdev.Find(ctx, id)
		if err != nil || attempt == autoclearPatience || !slices.ContainsFunc(devices, func(d loopdev.Device) bool { return d.Autoclear }) {
			return devices, err
		}
		select {
		case <-ctx.Done():
			return devices, nil
		case <-time.After(autoclearPause):
		}
	}
}
