// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
	"k8s.io/utils/exec"

	"github.com/volumekit/volumekit/internal/filesystem"
	"github.com/volumekit/volumekit/internal/loopdev"
	"github.com/volumekit/volumekit/internal/record"
	"github.com/volumekit/volumekit/internal/volumedir"
	"github.com/volumekit/volumekit/volume"
)

// make makes the image, or goes on where an earlier call ended. It returns what is recorded, which is what the first call asked for.
// On an error that is no crash nothing is left.
func (i image) make(ctx context.Context, x exec.Interface, asked imageRecord) (*imageRecord, error) {
	unlock, err := i.lock(ctx, true)
	if err != nil {
		return nil, err
	}
	defer unlock()
	r, err := i.read()
	if err != nil {
		return nil, err
	}
	if r == nil {
		if _, err := os.Lstat(i.path()); !errors.Is(err, fs.ErrNotExist) {
			return nil, volume.Errorf(volume.ErrInvalid, "it exists already and was not provisioned: move it away, or describe it in a PersistentVolume of your own")
		}
		r = &asked
	}
	if r.Deleting {
		return nil, volume.Errorf(volume.ErrInUse, "it is being deleted, or that was interrupted: delete it first")
	}
	named, err := i.isNamed(r)
	if err != nil {
		return nil, err
	}
	switch {
	case r.Complete && !named:
		return nil, volume.Errorf(volume.ErrNotFound, "it was provisioned, and is gone: restore it, or delete the volume")
	case !named:
		if err := i.build(ctx, x, r); err != nil {
			return nil, errors.Join(volumedir.Exhausted(err), i.undo())
		}
	}
	if !r.Complete {
		r.Complete = true
		if err := i.write(r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// lock has other calls for images in the directory wait, which is made if create is set.
func (i image) lock(ctx context.Context, create bool) (unlock func(), err error) {
	if create {
		if err := os.MkdirAll(i.directory, 0o755); err != nil {
			return nil, err
		}
		if err := os.Mkdir(i.records(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	if info, err := os.Lstat(i.records()); err == nil && !info.IsDir() {
		return nil, volume.Errorf(volume.ErrInvalid, "%s is no directory: only the plugin's own records may have that name", i.records())
	}
	// Each image has a lock of its own: to make one can take long.
	path := filepath.Join(i.records(), i.name+".lock")
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		if err := flock(ctx, f); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		// It may be a file that whoever had the lock has removed.
		now, err := os.Stat(path)
		if info, statErr := f.Stat(); err == nil && statErr == nil && os.SameFile(now, info) {
			return func() {
				_ = os.Remove(path)
				_ = f.Close()
				i.removeRecords()
			}, nil
		}
		_ = f.Close()
	}
}

// removeRecords removes the directory of the records, if it is empty.
func (i image) removeRecords() { _ = syscall.Rmdir(i.records()) }

// isNamed reports whether the image has its name. Another file there is an error.
func (i image) isNamed(r *imageRecord) (bool, error) {
	var st unix.Stat_t
	err := unix.Lstat(i.path(), &st)
	if err == unix.ENOENT {
		return false, nil
	}
	if err != nil {
		return false, &fs.PathError{Op: "stat", Path: i.path(), Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || r.File.Inode != st.Ino {
		return false, volume.Errorf(volume.ErrInvalid, "another file is there than the one that was provisioned (inode %d instead of %d)", st.Ino, r.File.Inode)
	}
	return true, nil
}

// build makes the image, with its file system, and gives it its name.
func (i image) build(ctx context.Context, x exec.Interface, r *imageRecord) error {
	r.File = loopdev.FileID{}
	if err := i.write(r); err != nil {
		return err
	}
	unfinished := i.unfinished()
	if err := os.Remove(unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(unfinished, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := setSize(f, r.Bytes, r.Preallocate); err != nil {
		return err
	}
	if r.FSType != "" {
		options := filesystem.MakeOptions{Type: r.FSType, Options: r.MkfsOptions}
		if err := filesystem.Make(ctx, x, unfinished, options); err != nil {
			if errors.Is(err, filesystem.ErrInvalid) {
				return volume.Errorf(volume.ErrInvalid, "%w", err)
			}
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := f.Sync(); err != nil {
		return err
	}
	// The inode tells the image from a file that somebody puts in its place.
	if r.File, err = loopdev.FileIDOf(unfinished); err != nil {
		return err
	}
	if err := i.write(r); err != nil {
		return err
	}
	err = unix.Renameat2(unix.AT_FDCWD, unfinished, unix.AT_FDCWD, i.path(), unix.RENAME_NOREPLACE)
	if err == unix.EINVAL { // a file system that does not know that
		err = os.Link(unfinished, i.path())
		if err == nil {
			err = os.Remove(unfinished)
		}
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: unfinished, New: i.path(), Err: err}
	}
	return syncDirectory(i.directory)
}

// undo removes what is there of an image that could not be made.
func (i image) undo() error {
	if err := os.Remove(i.unfinished()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return i.forget()
}

func (i image) forget() error {
	return errors.Join(record.Remove(i.recordPath()), record.RemoveUnfinished(i.recordPath()), ignoringGone(syncDirectory(i.records())))
}

func ignoringGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// setSize makes a file larger, all of it or nothing. The rest is a hole, or allocated.
func setSize(f *os.File, bytes int64, allocate bool) error {
	info, err := f.Stat()
	if err != nil || info.Size() >= bytes {
		return err
	}
	if allocate {
		err = ignoringEINTR(func() error { return unix.Fallocate(int(f.Fd()), 0, 0, bytes) })
		if errors.Is(err, unix.EOPNOTSUPP) {
			return volume.Errorf(volume.ErrNotSupported, "the file system cannot allocate space in advance (preallocate): %w", err)
		}
	} else {
		err = f.Truncate(bytes)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("make %s %d bytes long: %w", f.Name(), bytes, volumedir.Exhausted(err)), f.Truncate(info.Size()))
	}
	return nil
}

// delete deletes the image. After a crash the same call goes on.
func (i image) delete(ctx context.Context) error {
	if _, err := os.Stat(i.directory); err != nil {
		return fmt.Errorf("the directory is missing, so nothing is known of what is in it: mount its disk, or make it again: %w", err)
	}
	if _, err := os.Lstat(i.recordPath()); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(i.path()); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return volume.Errorf(volume.ErrInvalid, "it was not provisioned: it has no record at %s", i.recordPath())
	}
	unlock, err := i.lock(ctx, false)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := i.read()
	if err != nil || r == nil {
		return err
	}
	for _, path := range []string{i.path(), i.unfinished()} {
		if err := i.deleteFile(ctx, r, path); err != nil {
			return err
		}
	}
	return i.forget()
}

func (i image) deleteFile(ctx context.Context, r *imageRecord, path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if path == i.path() {
		if _, err := i.isNamed(r); err != nil {
			return err
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	devices, err := loopdev.Find(ctx, loopdev.FileID{Device: st.Dev, Inode: st.Ino})
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
	if err := os.Remove(path); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

// scrub overwrites what the file holds with zeros, and writes them to the disk. Holes stay.
func scrub(ctx context.Context, f *os.File, size int64) error {
	zeros := make([]byte, 1<<20)
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
		for at = begin; at < end; {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			n, err := f.WriteAt(zeros[:min(end-at, int64(len(zeros)))], at)
			if err != nil {
				return err
			}
			at += int64(n)
		}
	}
	return f.Sync()
}

func seek(f *os.File, at int64, whence int) (int64, error) {
	to, err := unix.Seek(int(f.Fd()), at, whence)
	if err != nil {
		return 0, &fs.PathError{Op: "seek", Path: f.Name(), Err: err}
	}
	return to, nil
}

// grow makes the image larger, and returns its size. It never becomes smaller.
func (i image) grow(ctx context.Context, bytes int64) (int64, error) {
	unlock, err := i.lock(ctx, false)
	if err != nil {
		return 0, err
	}
	defer unlock()
	r, err := i.read()
	if err != nil {
		return 0, err
	}
	if r == nil || !r.Complete || r.Deleting {
		return 0, volume.Errorf(volume.ErrInvalid, "it was not provisioned, or is being deleted")
	}
	if named, err := i.isNamed(r); err != nil || !named {
		return 0, errors.Join(err, volume.Errorf(volume.ErrNotFound, "it is not there"))
	}
	if bytes < r.Bytes {
		return r.Bytes, nil
	}
	f, err := os.OpenFile(i.path(), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := setSize(f, bytes, r.Preallocate); err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	if r.Bytes == bytes {
		return bytes, nil
	}
	r.Bytes = bytes
	return bytes, i.write(r)
}

func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func ignoringEINTR(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
