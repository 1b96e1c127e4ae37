// SPDX-License-Identifier: Apache-2.0

package hardlimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/filesystem"
	"github.com/volumekit/volumekit/internal/loopdev"
	"github.com/volumekit/volumekit/internal/program"
)

// fileSystem is what images hold.
const fileSystem = "ext4"

// applyImage makes, mounts and prepares the image, as far as each is still to be done. An image has its own name only when it is
// mounted and prepared.
func (o Options) applyImage(ctx context.Context, dir string, found Limit) error {
	path := o.Image
	if !found.Complete {
		path = newPath(o.Image)
	}
	if !found.Mounted {
		if err := notMounted(ctx, dir); err != nil {
			return err
		}
		if !found.Complete {
			if err := notEmpty(dir); err != nil {
				return err
			}
			if err := o.makeImage(ctx, path); err != nil {
				return err
			}
		}
		if err := os.Chmod(dir, MountPointMode); err != nil {
			return err
		}
		if err := o.mount(ctx, dir, path, found.Complete); err != nil {
			return err
		}
		// A mounter that only keeps a table is not for this.
		switch _, mounted, err := mountedImage(ctx, dir, path); {
		case err != nil:
			return err
		case !mounted:
			return errors.Join(
				fmt.Errorf("the image %s is not what was mounted on %s: %w", path, dir, errors.ErrUnsupported), o.Mounter.Unmount(dir))
		}
	}
	if found.Complete {
		return nil
	}
	if err := o.prepare(dir); err != nil {
		return fmt.Errorf("prepare %s: %w", dir, err)
	}
	if err := os.Rename(path, o.Image); err != nil {
		return err
	}
	return syncDir(filepath.Dir(o.Image))
}

// makeAttempts is how often an image is made anew because it turned out to be too small, which happens once at most.
const makeAttempts = 4

// makeImage makes a file with a file system. What is there already is no image that was ever used.
func (o Options) makeImage(ctx context.Context, path string) error {
	size := imageSize(o.Bytes)
	for attempt := 1; ; attempt++ {
		free, err := o.tryImage(ctx, path, size)
		switch {
		case err != nil:
			return errors.Join(fmt.Errorf("make the image %s: %w", path, err), removeFile(path))
		case free >= o.Bytes:
			return nil
		case attempt == makeAttempts:
			return errors.Join(fmt.Errorf("make the image %s: of its %d bytes only %d can be used", path, size, free), removeFile(path))
		}
		size += roundUp((o.Bytes-free)*5/4, sizeUnit)
	}
}

func (o Options) tryImage(ctx context.Context, path string, size uint64) (free uint64, err error) {
	if err := removeFile(path); err != nil {
		return 0, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := file.Truncate(int64(size)); err != nil {
		return 0, err
	}
	err = filesystem.Make(ctx, o.Exec, path, filesystem.MakeOptions{Type: fileSystem, Options: makeOptions(o.Bytes, size)})
	if err != nil {
		return 0, noRoom(err)
	}
	made, err := readSuperblock(file)
	if err != nil {
		return 0, err
	}
	free = made.freeBytes()
	if free < o.Bytes {
		return free, nil
	}
	if o.Preallocate {
		if err := allocate(file, size); err != nil {
			return 0, err
		}
	}
	return free, file.Sync()
}

// noRoom has an error match ENOSPC or EDQUOT if it is what a program says of that.
func noRoom(err error) error {
	var exit *program.ExitError
	if errors.As(err, &exit) {
		said := strings.ToLower(exit.Output)
		for _, number := range []unix.Errno{unix.ENOSPC, unix.EDQUOT} {
			if strings.Contains(said, number.Error()) {
				return fmt.Errorf("%w: %w", number, err)
			}
		}
	}
	return err
}

// mount mounts an image. One that was ever mounted before is checked first, and grown if it is too small by now.
func (o Options) mount(ctx context.Context, dir, image string, used bool) error {
	device, err := attach(ctx, image)
	if err != nil {
		return err
	}
	defer func() { _ = device.Close() }()
	if used {
		if err := o.checkAndGrow(ctx, device); err != nil {
			return err
		}
	}
	// The kernel need not write the zeros that are there already.
	options := append([]string{"errors=remount-ro", "noinit_itable"}, o.MountOptions...)
	if !o.Preallocate {
		options = append(options, "discard") // what is deleted leaves the image, too
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return o.Mounter.MountSensitiveWithoutSystemd(device.Path, dir, fileSystem, options, nil)
}

// checkAndGrow checks the file system and grows it if it is too small, unless it is mounted elsewhere and so in order. The error
// matches EBUSY if a program has the device for itself, such as an e2fsck that a process had started which was killed.
func (o Options) checkAndGrow(ctx context.Context, device *loopdev.Handle) error {
	_, err := filesystem.Check(ctx, o.Exec, device.Path, fileSystem)
	if errors.Is(err, filesystem.ErrInUse) {
		// The kernel has it there while it is mounted, in whichever namespace.
		if _, notMounted := os.Stat("/sys/fs/ext4/" + filepath.Base(device.Path)); notMounted != nil {
			return fmt.Errorf("%w: %w", unix.EBUSY, err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	err = o.growOffline(ctx, device)
	if errors.Is(err, filesystem.ErrInUse) {
		return fmt.Errorf("%w: %w", unix.EBUSY, err)
	}
	return err
}

// attach returns a loop device of the image. Two of the same image would ruin it, so one that there is is taken.
func attach(ctx context.Context, image string) (*loopdev.Handle, error) {
	id, err := loopdev.FileIDOf(image)
	if err != nil {
		return nil, err
	}
	devices, err := loopdev.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, device := range devices {
		handle, err := loopdev.Open(device.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it went with its last user
		case err != nil:
			return nil, err
		case handle.Backing == id:
			return handle, nil
		default: // and somebody else has it
			_ = handle.Close()
		}
	}
	return loopdev.Attach(ctx, image, loopdev.Options{Autoclear: true, DirectIO: true})
}

// prepare makes the root directory what a new one is to be.
func (o Options) prepare(dir string) error {
	// A child that has been forked and does not run its program yet holds everything open that we do, and somebody may want to
	// unmount the image by then.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	root, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	err = unix.Unlinkat(int(root.Fd()), "lost+found", unix.AT_REMOVEDIR)
	if err != nil && err != unix.ENOENT {
		return &os.PathError{Op: "remove", Path: filepath.Join(dir, "lost+found"), Err: err}
	}
	if o.Prepare == nil {
		return nil
	}
	return o.Prepare(root)
}

// notEmpty returns an error if there is something in dir.
func notEmpty(dir string) error {
	file, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	switch names, err := file.Readdirnames(1); {
	case err == io.EOF:
		return nil
	case err != nil:
		return err
	default:
		return fmt.Errorf("%s has files (%q), which an image would hide: %w", dir, names, ErrInUse)
	}
}

// allocate gives a file all its space, and so that it stays.
func allocate(file *os.File, size uint64) error {
	for {
		if err := unix.Fallocate(int(file.Fd()), 0, 0, int64(size)); err != unix.EINTR {
			return os.NewSyscallError("fallocate", err)
		}
	}
}

// removeFile removes a file, if there is one.
func removeFile(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func syncDir(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return file.Sync()
}
