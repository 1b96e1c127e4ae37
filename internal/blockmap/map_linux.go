// SPDX-License-Identifier: Apache-2.0

package blockmap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"

	"github.com/volumekit/volumekit/internal/loopdev"
	"github.com/volumekit/volumekit/volume"
)

// Map maps the device for the pod, and returns the loop device that holds it. What is mapped already is left as it is, and what
// is there of another device, because that went away, is replaced. After a crash the same call goes on, and so does Unmap. The
// error matches [volume.ErrInUse] where somebody else has put something in a place that Map needs: that is never followed, nor
// removed.
func Map(ctx context.Context, mounter mount.Interface, m Mapping) (loopdev.Device, error) {
	device, err := filepath.EvalSymlinks(m.Device)
	if err != nil {
		return loopdev.Device{}, fmt.Errorf("the device cannot be found: %w", err)
	}
	number, err := numberOf(device)
	if err != nil {
		return loopdev.Device{}, err
	}
	now, err := m.state()
	if err != nil {
		return loopdev.Device{}, err
	}
	if now.bound && now.number != number {
		if err := unbind(ctx, mounter, m); err != nil {
			return loopdev.Device{}, fmt.Errorf("another device is mapped there: %w", err)
		}
		now = node{}
	}
	mayBeHeld := now.exists || exists(m.hint())
	if !now.bound {
		if now, err = bind(ctx, mounter, device, number, m); err != nil {
			return loopdev.Device{}, err
		}
	}
	lock, err := m.hold(ctx, now, mayBeHeld)
	if err != nil {
		return loopdev.Device{}, err
	}
	if err := os.MkdirAll(m.PodDir, dirMode); err != nil {
		return loopdev.Device{}, err
	}
	return lock, setLink(m.link(), device)
}

// dirMode is that of the kubelet's directories.
const dirMode = 0o750

// bind binds the device's node.
func bind(ctx context.Context, mounter mount.Interface, device string, number uint64, m Mapping) (node, error) {
	if err := m.makePlace(ctx); err != nil {
		return node{}, err
	}
	if err := mounter.Mount(device, m.node(), "", []string{"bind"}); err != nil {
		return node{}, fmt.Errorf("bind %s to %s: %w", device, m.node(), err)
	}
	now, err := m.state()
	if err == nil && (!now.bound || now.number != number) {
		err = volume.Errorf(volume.ErrUncertain, "%s was bound to %s, but something else is there", device, m.node())
	}
	return now, err
}

// makePlace makes the file on which the node is bound.
func (m Mapping) makePlace(ctx context.Context) error {
	for {
		if err := os.MkdirAll(m.GlobalMapPath, dirMode); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		file, err := unix.Open(m.node(), unix.O_CREAT|unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
		switch err {
		case nil:
			return unix.Close(file)
		case unix.EINTR:
		case unix.ENOENT: // Unmap for another pod, or of another volume, has removed a directory that was empty.
		default:
			return &fs.PathError{Op: "make", Path: m.node(), Err: err}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
