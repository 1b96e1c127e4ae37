// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/volume"
)

// grow makes the image larger, and returns its size. It never becomes smaller.
func (i image) grow(ctx context.Context, bytes int64) (int64, error) {
	base, err := i.openBase(ctx, false)
	if err != nil {
		return 0, err
	}
	defer base.Close()
	unlock, err := i.lock(ctx, base, false)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, volume.Errorf(volume.ErrInvalid, "it was not provisioned: it has no record at %s", i.recordPath())
	}
	if err != nil {
		return 0, err
	}
	defer unlock()
	r, err := i.read()
	switch {
	case err != nil:
		return 0, err
	case r == nil || !r.Complete || r.Deleting || r.Below != i.below:
		return 0, volume.Errorf(volume.ErrInvalid, "it was not provisioned there, or is being deleted (record %s)", i.recordPath())
	case bytes < r.Bytes:
		return 0, volume.Errorf(volume.ErrInvalid, "it has %d bytes and never becomes smaller: it cannot have %d", r.Bytes, bytes)
	}
	dir, err := i.openDirectory(base, false)
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	f, err := openAt(dir, i.fileName(), unix.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, volume.Errorf(volume.ErrNotFound, "it is gone: %w", err)
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if id, err := idOf(f); err != nil || id != r.File {
		return 0, errors.Join(volume.Errorf(volume.ErrInvalid, "another file is there than the one that was provisioned"), ignoring(err, errNotRegular))
	}
	if err := setSize(ctx, f, bytes, r.Preallocate); err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if r.Bytes == info.Size() {
		return r.Bytes, nil
	}
	r.Bytes = info.Size()
	return r.Bytes, i.write(r)
}
