// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/utils/exec"

	"github.com/volumekit/volumekit/internal/filesystem"
	"github.com/volumekit/volumekit/internal/program"
	"github.com/volumekit/volumekit/internal/record"
	"github.com/volumekit/volumekit/internal/volumedir"
	"github.com/volumekit/volumekit/volume"
)

// make makes the image, or goes on where an earlier call ended. It returns what is recorded, which is what the first call asked for.
// On an error nothing is left, unless that matches ErrUncertain, or is about what was there before the call.
func (i image) make(ctx context.Context, x exec.Interface, asked imageRecord) (*imageRecord, error) {
	base, err := i.openBase(ctx, true)
	if err != nil {
		return nil, err
	}
	defer base.Close()
	unlock, err := i.lock(ctx, base, true)
	if err != nil {
		return nil, err
	}
	defer unlock()
	r, err := i.read()
	if err != nil {
		return nil, volume.Errorf(volume.ErrUncertain, "%w", err)
	}
	asked.Below = i.below
	if r != nil {
		if r.Deleting {
			return nil, volume.Errorf(volume.ErrInUse, "it is being deleted, or that was interrupted: delete it first")
		}
		i.below = r.Below
	}
	dir, err := i.openDirectory(base, true)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	made, err := i.makeIn(ctx, x, dir, r, asked)
	return made, volumedir.Exhausted(err)
}

// check refuses a claim that asks for something else than what was made.
func (r *imageRecord) check(asked imageRecord) error {
	switch {
	case (r.FSType == "") != (asked.FSType == ""):
		return volume.Errorf(volume.ErrInvalid, "it was provisioned for another volumeMode than the claim has")
	case r.Bytes < asked.Bytes:
		return volume.Errorf(volume.ErrInvalid, "it was provisioned with %d bytes, and the claim asks for %d: expand it", r.Bytes, asked.Bytes)
	}
	return nil
}

// makeIn makes the image in its directory, of which r is recorded, nil if nothing is.
func (i image) makeIn(ctx context.Context, x exec.Interface, dir *os.File, r *imageRecord, asked imageRecord) (*imageRecord, error) {
	named := false
	if r == nil {
		if _, err := idAt(dir, i.fileName()); !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(volume.Errorf(volume.ErrInvalid,
				"it exists already and was not provisioned: move it away, or describe it in a PersistentVolume of your own"), ignoring(err, errNotRegular))
		}
	} else {
		var err error
		if named, err = i.isNamed(dir, r); err != nil {
			return nil, err
		}
	}
	if named {
		if err := r.check(asked); err != nil {
			return nil, err
		}
	}
	switch {
	case named && r.Complete:
		return r, nil
	case r != nil && r.Complete:
		return nil, volume.Errorf(volume.ErrNotFound, "it was provisioned, and is gone: restore it, or delete the volume")
	case !named:
		asked.Below = i.below
		r = &asked
		if err := i.build(ctx, x, dir, r); err != nil {
			if undoErr := i.undo(dir, r); undoErr != nil {
				return nil, volume.Errorf(volume.ErrUncertain, "%w; and what was begun of it could not be removed: %w", err, undoErr)
			}
			return nil, err
		}
	}
	// A crash may have come between the two.
	err := dir.Sync()
	if err == nil {
		r.Complete = true
		err = i.write(r)
	}
	if err != nil {
		return nil, volume.Errorf(volume.ErrUncertain, "%w", err)
	}
	return r, nil
}

// isNamed reports whether the image has its name. Another file there is an error.
func (i image) isNamed(dir *os.File, r *imageRecord) (bool, error) {
	id, err := idAt(dir, i.fileName())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil && !errors.Is(err, errNotRegular):
		return false, err
	case err != nil || id != r.File:
		return false, volume.Errorf(volume.ErrInvalid, "another file is there than the one that was provisioned: move it away")
	}
	return true, nil
}

// build makes the image, with its file system, and gives it its name.
func (i image) build(ctx context.Context, x exec.Interface, dir *os.File, r *imageRecord) error {
	if err := i.write(r); err != nil {
		return err
	}
	f, err := i.create(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := setSize(ctx, f, r.Bytes, r.Preallocate); err != nil {
		return err
	}
	if r.FSType != "" {
		err := filesystem.Make(ctx, x, i.unfinished(), filesystem.MakeOptions{Type: r.FSType, Options: r.MkfsOptions})
		var exited *program.ExitError
		switch {
		case errors.Is(err, filesystem.ErrInvalid):
			return volume.Errorf(volume.ErrInvalid, "%w", err)
		case errors.As(err, &exited) && strings.Contains(exited.Output, "No space left on device"):
			return volume.Errorf(volume.ErrExhausted, "%w", err)
		case err != nil:
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := f.Sync(); err != nil {
		return err
	}
	unfinished, err := openIn(dir, recordsDir)
	if err != nil {
		return err
	}
	defer unfinished.Close()
	id, err := idOf(f)
	if err != nil {
		return err
	}
	if now, err := idAt(unfinished, i.fileName()); err != nil || now != id {
		return errors.Join(volume.Errorf(volume.ErrInvalid, "somebody has put another file at %s", i.unfinished()), err)
	}
	r.File = id
	if err := i.write(r); err != nil {
		return err
	}
	return rename(unfinished, dir, i.fileName())
}

// create makes the file that becomes the image, in place of what a crash has left of it. Whoever has made another image meanwhile
// removes the directory that it is in, if it is empty.
func (i image) create(dir *os.File) (*os.File, error) {
	for attempt := 1; ; attempt++ {
		f, err := i.tryCreate(dir)
		if !errors.Is(err, fs.ErrNotExist) || attempt == maxAttempts {
			return f, err
		}
	}
}

// maxAttempts bounds how often a directory is made that others remove because it is empty.
const maxAttempts = 1000

func (i image) tryCreate(dir *os.File) (*os.File, error) {
	parent, err := makeIn(dir, recordsDir)
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	if err := unlinkAt(parent, i.fileName()); err != nil {
		return nil, err
	}
	return openAt(parent, i.fileName(), unix.O_CREAT|unix.O_EXCL|unix.O_RDWR)
}

// rename gives the image its name. A file that has it already stays.
func rename(from, to *os.File, name string) error {
	err := unix.Renameat2(int(from.Fd()), name, int(to.Fd()), name, unix.RENAME_NOREPLACE)
	if err == unix.EINVAL { // a file system that does not know that
		if err = unix.Linkat(int(from.Fd()), name, int(to.Fd()), name, 0); err == nil {
			err = unix.Unlinkat(int(from.Fd()), name, 0)
		}
	}
	if err != nil {
		return &fs.PathError{Op: "rename to", Path: to.Name() + "/" + name, Err: err}
	}
	return nil
}

// undo removes what is there of an image that could not be made.
func (i image) undo(dir *os.File, r *imageRecord) error {
	if err := i.removeUnfinished(dir); err != nil {
		return err
	}
	if id, err := idAt(dir, i.fileName()); err == nil && id == r.File {
		if err := unlinkAt(dir, i.fileName()); err != nil {
			return err
		}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNotRegular) {
		return err
	}
	if err := dir.Sync(); err != nil {
		return err
	}
	return i.forget()
}

// removeUnfinished removes what is there of an image that has no name yet, and the directory of such if that is empty.
func (i image) removeUnfinished(dir *os.File) error {
	parent, err := openIn(dir, recordsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	if err := unlinkAt(parent, i.fileName()); err != nil {
		return err
	}
	_ = unix.Unlinkat(int(dir.Fd()), recordsDir, unix.AT_REMOVEDIR)
	return nil
}

func (i image) forget() error {
	return errors.Join(record.RemoveUnfinished(i.recordPath()), record.Remove(i.recordPath()))
}

func ignoring(err, which error) error {
	if errors.Is(err, which) {
		return nil
	}
	return err
}
