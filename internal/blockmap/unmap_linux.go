// SPDX-License-Identifier: Apache-2.0

package blockmap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"

	"github.com/volumekit/volumekit/internal/loopdev"
	"github.com/volumekit/volumekit/volume"
)

// Unmap undoes Map, as far as that came. It succeeds for what is not mapped, and needs neither the device nor its file to be
// there.
//
// A process that has opened the device keeps it, and does not keep Unmap from succeeding: a container has a node of its own,
// and so has what opened the pod's link. But while somebody has opened the very node that is bound, the error matches
// [volume.ErrInUse]. The link and the hold on the device are gone then, and the next call goes on.
func Unmap(ctx context.Context, mounter mount.Interface, m Mapping) error {
	if err := removeLink(m.link()); err != nil {
		return err
	}
	if err := unbind(ctx, mounter, m); err != nil {
		return err
	}
	dir := m.GlobalMapPath
	for range 4 { // plugins/<plugin>/volumeDevices/<volume>
		if err := syscall.Rmdir(dir); err != nil && err != syscall.ENOENT {
			break
		}
		dir = filepath.Dir(dir)
	}
	return nil
}

// unbind takes the node away, and the loop device that holds it.
func unbind(ctx context.Context, mounter mount.Interface, m Mapping) error {
	now, err := m.state()
	if err != nil {
		return err
	}
	name, err := m.lockName()
	if err != nil {
		return err
	}
	held, err := m.locks(ctx, name)
	if err != nil {
		return err
	}
	for _, lock := range held {
		if err := loopdev.Detach(ctx, lock); err != nil {
			return err
		}
	}
	if now.bound {
		if err := unmount(ctx, mounter, m, held); err != nil {
			return err
		}
	}
	if err := syscall.Unlink(m.node()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "remove", Path: m.node(), Err: err}
	}
	return removeLink(m.hint())
}

// unmount unmounts the node, also where it is bound more than once. held are the loop devices that held it.
//
// Whoever looks at all loop devices has each of them open for a moment. That puts off what Detach does, and until then the
// mount is in use; the kernel tells of the end of neither.
func unmount(ctx context.Context, mounter mount.Interface, m Mapping, held []loopdev.Device) error {
	const (
		longest  = time.Second
		released = 5 // attempts once the loop devices are gone: the kernel closes their files a little later
	)
	attempts := 0
	for wait := time.Millisecond; ; {
		err := mounter.Unmount(m.node())
		now, stateErr := m.state()
		switch {
		case stateErr != nil:
			return stateErr
		case !now.bound:
			return nil
		case err == nil:
			continue
		}
		if !anyAttached(held) {
			attempts++
		}
		if wait > longest || attempts == released || len(held) == 0 {
			if errors.Is(err, unix.EBUSY) {
				err = volume.Errorf(volume.ErrInUse, "somebody has it open: %w", err)
			}
			return fmt.Errorf("unmount %s: %w", m.node(), err)
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(wait):
			wait *= 2
		}
	}
}

func anyAttached(devices []loopdev.Device) bool {
	return slices.ContainsFunc(devices, func(d loopdev.Device) bool {
		h, err := loopdev.Open(d.Path)
		if err != nil {
			return !errors.Is(err, fs.ErrNotExist)
		}
		_ = h.Close()
		return h.Backing == d.Backing && h.BackingName == d.BackingName
	})
}
