// SPDX-License-Identifier: Apache-2.0

package blockmap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/mount-utils"

	"github.com/volumekit/volumekit/internal/loopdev"
	"github.com/volumekit/volumekit/volume"
)

// Map maps the device for the pod, and returns the loop device that holds it. What is mapped already is left as it is, and what is
// there of another device, because that went away, is replaced. After a crash the same call goes on, and so does Unmap.
func Map(ctx context.Context, mounter mount.Interface, m Mapping) (loopdev.Device, error) {
	device, err := filepath.EvalSymlinks(m.Device)
	if err != nil {
		return loopdev.Device{}, err
	}
	number, err := numberOf(device)
	if err != nil {
		return loopdev.Device{}, err
	}
	for _, dir := range []string{m.GlobalMapPath, m.PodDir} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return loopdev.Device{}, err
		}
	}
	state, err := m.state()
	if err != nil {
		return loopdev.Device{}, err
	}
	if state.bound && state.number != number {
		if err := unbind(ctx, mounter, m); err != nil {
			return loopdev.Device{}, fmt.Errorf("another device is mapped there: %w", err)
		}
		state = node{}
	}
	if !state.bound {
		if err := bind(mounter, device, m); err != nil {
			return loopdev.Device{}, err
		}
	}
	lock, err := m.hold(ctx, state.bound)
	if err != nil {
		return loopdev.Device{}, err
	}
	return lock, setLink(m.link(), device)
}

// numberOf returns the number of a block device.
func numberOf(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return 0, volume.Errorf(volume.ErrInvalid, "%s is no block device", path)
	}
	return st.Rdev, nil
}

// node is what is at the place where a device's node is bound.
type node struct {
	exists bool
	bound  bool   // a block device is mounted there
	number uint64 // the device's
}

// state looks, and refuses what cannot have been put there by Map.
func (m Mapping) state() (node, error) {
	var st unix.Statx_t
	path := m.node()
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_SIZE, &st)
	switch {
	case err == unix.ENOENT:
		return node{}, nil
	case err != nil:
		return node{}, &fs.PathError{Op: "statx", Path: path, Err: err}
	}
	mounted := st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
	switch kind := st.Mode & unix.S_IFMT; {
	case kind == unix.S_IFBLK && mounted:
		return node{exists: true, bound: true, number: unix.Mkdev(st.Rdev_major, st.Rdev_minor)}, nil
	case kind == unix.S_IFREG && !mounted && st.Size == 0:
		return node{exists: true}, nil
	}
	return node{}, volume.Errorf(volume.ErrInUse, "%s is neither an empty file nor a device that is mounted there: somebody else put it there; remove it", path)
}

func bind(mounter mount.Interface, device string, m Mapping) error {
	file, err := os.OpenFile(m.node(), os.O_CREATE|os.O_RDONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	if err := mounter.Mount(device, m.node(), "", []string{"bind"}); err != nil {
		return fmt.Errorf("bind %s to %s: %w", device, m.node(), err)
	}
	return nil
}

// hold sees to it that a loop device is attached to the node. mayBeHeld says that one may be.
func (m Mapping) hold(ctx context.Context, mayBeHeld bool) (loopdev.Device, error) {
	if mayBeHeld {
		held, err := m.locks(ctx)
		if err != nil {
			return loopdev.Device{}, err
		}
		if len(held) > 0 {
			return held[0], setLink(m.hint(), held[0].Path)
		}
	}
	lock, err := loopdev.Attach(ctx, m.node(), loopdev.Options{ReadOnly: true, Name: m.lockName()})
	if err != nil {
		return loopdev.Device{}, err
	}
	return lock.Device, errors.Join(setLink(m.hint(), lock.Path), lock.Close())
}

// locks returns the loop devices that hold the device.
func (m Mapping) locks(ctx context.Context) ([]loopdev.Device, error) {
	if path, err := os.Readlink(m.hint()); err == nil {
		if lock, err := loopdev.Open(path); err == nil {
			err := lock.Close()
			if lock.BackingName == m.lockName() {
				return []loopdev.Device{lock.Device}, err
			}
		}
	}
	return loopdev.FindNamed(ctx, m.lockName())
}

// setLink makes path a symbolic link to target. It replaces another link, and nothing else.
func setLink(path, target string) error {
	switch now, err := os.Readlink(path); {
	case err == nil && now == target:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return volume.Errorf(volume.ErrInUse, "%s is no symbolic link: somebody else put it there; remove it: %w", path, err)
	case err != nil:
		return os.Symlink(target, path)
	}
	fresh := path + "~" // no name of a volume, or of a pod, has that
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, fresh); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// removeLink removes a symbolic link, and what a crash may have left of setting it. It succeeds if there is none.
func removeLink(path string) error {
	for _, link := range []string{path, path + "~"} {
		info, err := os.Lstat(link)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && info.Mode().Type() != fs.ModeSymlink {
			err = volume.Errorf(volume.ErrInUse, "%s is no symbolic link: somebody else put it there; remove it", link)
		}
		if err == nil {
			err = os.Remove(link)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Unmap undoes Map, as far as that came. It succeeds for what is not mapped, and needs neither the device nor its file to be there.
// A container that still has the device open keeps it.
func Unmap(ctx context.Context, mounter mount.Interface, m Mapping) error {
	if err := removeLink(m.link()); err != nil {
		return err
	}
	if err := unbind(ctx, mounter, m); err != nil {
		return err
	}
	dir := m.GlobalMapPath
	for range 4 { // plugins/<plugin>/volumeDevices/<volume>
		if syscall.Rmdir(dir) != nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	return nil
}

// unbind takes the node away, and the loop device that holds it.
func unbind(ctx context.Context, mounter mount.Interface, m Mapping) error {
	state, err := m.state()
	if err != nil {
		return err
	}
	_, hintErr := os.Lstat(m.hint())
	if !state.exists && errors.Is(hintErr, fs.ErrNotExist) {
		return nil
	}
	held, err := m.locks(ctx)
	if err != nil {
		return err
	}
	for _, lock := range held {
		if err := loopdev.Detach(ctx, lock); err != nil {
			return err
		}
	}
	if state.bound {
		if err := mounter.Unmount(m.node()); err != nil {
			return fmt.Errorf("unmount %s: %w", m.node(), err)
		}
	}
	if err := os.Remove(m.node()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return removeLink(m.hint())
}

// Mapped tells whether the device is mapped for the pod: bound, held, and linked to.
func Mapped(ctx context.Context, m Mapping) (volume.Presence, error) {
	state, err := m.state()
	if err != nil {
		return volume.Unknown, err
	}
	if !state.bound {
		return volume.Absent, nil
	}
	target, err := os.Readlink(m.link())
	if errors.Is(err, fs.ErrNotExist) {
		return volume.Absent, nil
	}
	if err != nil {
		return volume.Unknown, err
	}
	switch number, err := numberOf(target); {
	case errors.Is(err, fs.ErrNotExist), err == nil && number != state.number:
		return volume.Absent, nil
	case err != nil:
		return volume.Unknown, err
	}
	held, err := m.locks(ctx)
	switch {
	case err != nil:
		return volume.Unknown, err
	case len(held) == 0:
		return volume.Absent, nil
	}
	return volume.Present, nil
}

// Pods lists the pods that the device of a volume is, or may be, mapped for.
func Pods(globalMapPath string) ([]types.UID, error) {
	entries, err := os.ReadDir(globalMapPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var pods []types.UID
	for _, entry := range entries {
		if name := entry.Name(); !strings.HasPrefix(name, ".") {
			pods = append(pods, types.UID(name))
		}
	}
	return pods, nil
}
