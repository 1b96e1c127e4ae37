// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/abandon"
	"github.com/volumekit/volumekit/internal/loopdev"
	"github.com/volumekit/volumekit/internal/volumedir"
	"github.com/volumekit/volumekit/volume"
)

// mount mounts. It is not given up when ctx ends: what comes next must not overlap with it.
func (p *Plugin) mount(ctx context.Context, source, target, fsType string, options []string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return volumedir.Exhausted(p.host.Mounter.MountSensitiveWithoutSystemd(source, target, fsType, options, nil))
}

// showsPlace reports whether what is mounted at path is the device, or the file's loop device.
func (p *Plugin) showsPlace(ctx context.Context, path string, found place) (bool, error) {
	return abandon.Run(ctx, func() (bool, error) {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			return false, &fs.PathError{Op: "stat", Path: path, Err: err}
		}
		number := st.Dev
		if unix.Major(number) == 0 { // of no device: a file system, such as btrfs, that can be on several
			var err error
			if number, err = p.listedDevice(path); err != nil || number == 0 {
				return false, err
			}
		}
		return isDevice(number, found)
	})
}

// listedDevice returns the number of the device that the mount table has for path, 0 if that is none.
func (p *Plugin) listedDevice(path string) (uint64, error) {
	table, err := p.host.Mounter.List()
	if err != nil {
		return 0, err
	}
	path = volumedir.Resolve(path)
	var source string
	for i := range table {
		if table[i].Path == path {
			source = table[i].Device // the uppermost comes last
		}
	}
	var st unix.Stat_t
	if !strings.HasPrefix(source, "/") || unix.Stat(source, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return 0, nil
	}
	return st.Rdev, nil
}

// isDevice reports whether the number is that of the device, or of a loop device of the file.
func isDevice(number uint64, found place) (bool, error) {
	st := found.info.Sys().(*syscall.Stat_t)
	if found.kind == device {
		return number == st.Rdev, nil
	}
	path, ok := loopdev.IsLoop(number)
	if !ok {
		return false, nil
	}
	h, err := loopdev.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer h.Close()
	return h.Backing == loopdev.FileID{Device: st.Dev, Inode: st.Ino}, nil
}

// isReadOnly reports whether what is mounted at path is read-only.
func isReadOnly(ctx context.Context, path string) (bool, error) {
	return abandon.Run(ctx, func() (bool, error) {
		var st unix.Statfs_t
		if err := unix.Statfs(path, &st); err != nil {
			return false, &fs.PathError{Op: "statfs", Path: path, Err: err}
		}
		return st.Flags&unix.ST_RDONLY != 0, nil
	})
}

// withDevice calls f with the path of the device, which for a file is a loop device, one call at a time: of a file also among processes. The loop device
// goes when nobody has it open or mounted any more: f mounts it, or it is gone.
func (p *Plugin) withDevice(ctx context.Context, found place, readOnly bool, f func(device string) error) error {
	release, err := p.devices.Acquire(ctx, identityOf(found))
	if err != nil {
		return err
	}
	defer release()
	if found.kind == device {
		return f(found.path)
	}
	unlock, err := lockFile(ctx, found.path)
	if err != nil {
		return err
	}
	defer unlock()
	h, err := attached(ctx, found, loopdev.Options{ReadOnly: readOnly, DirectIO: true, Autoclear: true})
	if err != nil {
		return err
	}
	err = f(h.Path)
	return errors.Join(err, h.Close())
}

// attached returns the loop device of a file. There must not be two: their file systems would overwrite each other. One that somebody
// else has attached is used, if it shows the whole file. The caller has locked the file.
func attached(ctx context.Context, found place, options loopdev.Options) (*loopdev.Handle, error) {
	st := found.info.Sys().(*syscall.Stat_t)
	id := loopdev.FileID{Device: st.Dev, Inode: st.Ino}
	for {
		devices, err := loopdev.Find(ctx, id)
		if err != nil {
			return nil, err
		}
		if len(devices) == 0 {
			break
		}
		d := devices[0]
		if len(devices) > 1 || d.Offset != 0 || d.SizeLimit != 0 || d.ReadOnly != options.ReadOnly {
			return nil, volume.Errorf(volume.ErrInUse, "%s is attached to %s already, in another way than it is to be: detach it (losetup --detach)", found.path, devices)
		}
		h, err := loopdev.Open(d.Path)
		if err == nil && h.Backing == id {
			return h, nil
		}
		if err == nil {
			err = h.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENXIO) {
			return nil, err
		} // it has gone meanwhile
	}
	h, err := loopdev.Attach(ctx, found.path, options)
	if err != nil {
		return nil, err
	}
	if h.Backing != id {
		return nil, errors.Join(volume.Errorf(volume.ErrUncertain, "%s has become another file meanwhile", found.path), loopdev.Detach(ctx, h.Device), h.Close())
	}
	return h, nil
}

// lockFile has other processes of ours, and other goroutines, wait that are about to attach the file, or to change what is in it.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := flock(ctx, f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// flock locks an open file until it is closed, and gives up when ctx ends.
func flock(ctx context.Context, f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
		select {
		case <-ctx.Done():
			return volume.Errorf(volume.ErrInUse, "%s is locked by somebody else: %w", f.Name(), context.Cause(ctx))
		case <-time.After(time.Millisecond):
		}
	}
}

// refresh has the loop devices of a file take over its size.
func (p *Plugin) refresh(ctx context.Context, found place) error {
	if found.kind == device {
		return nil
	}
	st := found.info.Sys().(*syscall.Stat_t)
	devices, err := loopdev.Find(ctx, loopdev.FileID{Device: st.Dev, Inode: st.Ino})
	if err != nil {
		return err
	}
	for _, d := range devices {
		if err := loopdev.Refresh(ctx, d.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
