// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/exec"

	"github.com/volumekit/volumekit/internal/abandon"
	"github.com/volumekit/volumekit/internal/program"
)

// Make makes a file system on the block device, or in the regular file, at the absolute path. x runs mkfs; nil stands for running
// it directly. mkfs is never forced, and it discards nothing.
//
// The device has to be blank: the caller has seen so, and Make proves it again (see [Probe]) when it has locked the device
// against other calls of Make, by flock(2), which also keeps udev away. mkfs holds that lock too, so that nobody begins anew while
// one still runs whose caller has died. With [MakeOptions.Again] it may also have what was proved to be left of the same file
// system. At the end the file system that is there has to be the one that was asked for.
//
// The error matches [ErrInvalid] for options that are wrong, [ErrNotBlank], with what is there, for a device that is not blank,
// [ErrInUse] for one that is locked by somebody else, and what package program says. When ctx ends, mkfs is killed; see the
// package's documentation for what it leaves.
func Make(ctx context.Context, x exec.Interface, path string, o MakeOptions) error {
	if err := makeOn(ctx, x, path, o); err != nil {
		return fmt.Errorf("make a file system of type %q on %s: %w", o.Type, path, err)
	}
	return nil
}

func makeOn(ctx context.Context, x exec.Interface, path string, o MakeOptions) error {
	name, args, err := o.arguments()
	if err != nil {
		return err
	}
	locked, err := abandon.Run(ctx, func() (*device, error) { return lockDevice(ctx, path) })
	if err != nil {
		return err
	}
	defer locked.file.Close()

	before, err := Probe(ctx, path)
	if err != nil {
		return err
	}
	again := o.Again && before.IsLeftOf(o.UUID)
	if !before.Blank && !again {
		return &kindError{ErrNotBlank, fmt.Errorf("it is not blank: %s; if nothing of that is needed, wipe it", before.describe())}
	}
	if again && o.Type == "xfs" {
		// mkfs.xfs would have to be forced, and looks no further than here.
		if _, err := abandon.Run(ctx, func() (int, error) { return locked.file.WriteAt(aligned(align), 0) }); err != nil {
			return err
		}
	}
	run := program.Command{Exec: x, Name: name, Args: append(args, path), Hold: []*os.File{locked.file}}
	if _, err := run.Run(ctx); err != nil {
		return err
	}
	after, err := Probe(ctx, path)
	if err != nil {
		return err
	}
	if !after.IsFileSystem || !o.made(after) {
		return fmt.Errorf("%s succeeded, but what is there is %s", name, after.describe())
	}
	return nil
}

// made says whether it is the file system that was asked for. A feature more makes an ext2 an ext4.
func (o MakeOptions) made(c Content) bool {
	if strings.HasPrefix(o.Type, "ext") != strings.HasPrefix(c.Type, "ext") {
		return false
	}
	if !strings.HasPrefix(o.Type, "ext") && o.Type != c.Type {
		return false
	}
	return o.UUID == "" || strings.EqualFold(o.UUID, c.UUID)
}

func (c Content) describe() string {
	switch {
	case c.Blank:
		return "blank"
	case c.UUID != "":
		return fmt.Sprintf("%s (UUID %s)", c.Type, c.UUID)
	}
	return c.Type
}

const (
	// lockPatience is how long others may hold the lock: udev does for a moment.
	lockPatience = 5 * time.Second
	lockPause    = 20 * time.Millisecond
)

// lockDevice opens the device and locks it until that is closed.
func lockDevice(ctx context.Context, path string) (*device, error) {
	d, err := open(path, unix.O_RDWR) // NFS locks nothing for who cannot write
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(lockPatience); ; {
		err := unix.Flock(int(d.file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return d, nil
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EWOULDBLOCK):
			err = os.NewSyscallError("flock", err)
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case time.Now().After(end):
			err = &kindError{ErrInUse, errors.New("somebody else has locked it (flock), such as a mkfs that still runs")}
		default:
			time.Sleep(lockPause)
			continue
		}
		d.file.Close()
		return nil, err
	}
}
