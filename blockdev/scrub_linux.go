// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// scrubbed is how much is overwritten before it is written to the disk and given back.
const scrubbed = 64 << 20

// zeros is what is written.
var zeros [1 << 20]byte

// scrub overwrites what the file holds with zeros on the disk, and gives each part back when that is done: what is a hole has been
// scrubbed, or was never written to, so that the same call goes on after a crash. A file system that writes somewhere else than
// before, such as btrfs, keeps the old blocks until they are used again.
func scrub(ctx context.Context, f *os.File, size int64) error {
	for at := int64(0); at < size; {
		begin, err := seek(f, at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break // nothing but a hole is left
		}
		if err != nil {
			return err
		}
		end, err := seek(f, begin, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		at = min(end, begin+scrubbed)
		if err := scrubPart(ctx, f, begin, at); err != nil {
			return err
		}
	}
	return f.Sync()
}

func scrubPart(ctx context.Context, f *os.File, begin, end int64) error {
	for at := begin; at < end; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := f.WriteAt(zeros[:min(end-at, int64(len(zeros)))], at)
		if err != nil {
			return err
		}
		at += int64(n)
	}
	if err := unix.Fdatasync(int(f.Fd())); err != nil {
		return &fs.PathError{Op: "sync", Path: f.Name(), Err: err}
	}
	err := ignoringEINTR(func() error {
		return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, begin, end-begin)
	})
	if err != nil && err != unix.EOPNOTSUPP {
		return &fs.PathError{Op: "discard", Path: f.Name(), Err: err}
	}
	return nil
}

func seek(f *os.File, at int64, whence int) (int64, error) {
	to, err := unix.Seek(int(f.Fd()), at, whence)
	if err != nil {
		return 0, &fs.PathError{Op: "seek", Path: f.Name(), Err: err}
	}
	return to, nil
}
