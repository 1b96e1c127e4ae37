// SPDX-License-Identifier: Apache-2.0

package blockmap

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/loopdev"
)

// hold sees to it that a loop device is attached to the node. mayBeHeld says that one may be.
func (m Mapping) hold(ctx context.Context, now node, mayBeHeld bool) (loopdev.Device, error) {
	name, err := m.lockName()
	if err != nil {
		return loopdev.Device{}, err
	}
	if mayBeHeld {
		held, err := m.locks(ctx, name)
		if err != nil {
			return loopdev.Device{}, err
		}
		for _, lock := range held {
			if lock.Backing == now.id {
				return lock, setLink(m.hint(), lock.Path)
			}
			// The device that it holds was unmounted by hand, and is another one now.
			if err := loopdev.Detach(ctx, lock); err != nil {
				return loopdev.Device{}, err
			}
		}
	}
	lock, err := loopdev.Attach(ctx, m.node(), loopdev.Options{ReadOnly: true, Name: name})
	if err != nil {
		return loopdev.Device{}, err
	}
	return lock.Device, errors.Join(setLink(m.hint(), lock.Path), lock.Close())
}

// lockName is what the kernel calls the loop device that holds the device. Its file does not tell whose it is: the node of a
// device that two pods have is one inode. Nor is the path long enough in the kernel to tell. The name is the same however the
// root is spelt.
func (m Mapping) lockName() (string, error) {
	dir, err := realPath(m.GlobalMapPath)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(filepath.Join(dir, string(m.PodUID))))
	return "volumekit:" + hex.EncodeToString(sum[:20]), nil
}

// realPath resolves symbolic links in what there is of a path.
func realPath(path string) (string, error) {
	dir, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(dir)
		return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", dir))
	}
	parent := filepath.Dir(path)
	if err != unix.ENOENT || parent == path {
		return "", &fs.PathError{Op: "open", Path: path, Err: err}
	}
	parent, err = realPath(parent)
	return filepath.Join(parent, filepath.Base(path)), err
}

// locks returns the loop devices with the name: all that there are, or the one that the hint leads to.
func (m Mapping) locks(ctx context.Context, name string) ([]loopdev.Device, error) {
	if path, err := os.Readlink(m.hint()); err == nil && loopDevice.MatchString(path) {
		if lock, err := loopdev.Open(path); err == nil {
			err := lock.Close()
			if lock.BackingName == name {
				return []loopdev.Device{lock.Device}, err
			}
		}
	}
	return loopdev.FindNamed(ctx, name)
}

var loopDevice = regexp.MustCompile(`^/dev/loop[0-9]+$`)
