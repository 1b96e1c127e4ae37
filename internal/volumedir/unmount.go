// SPDX-License-Identifier: Apache-2.0

package volumedir

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"

	"k8s.io/mount-utils"

	"github.com/volumekit/volumekit/internal/abandon"
	"github.com/volumekit/volumekit/internal/removal"
	"github.com/volumekit/volumekit/internal/unmounting"
	"github.com/volumekit/volumekit/volume"
)

// maxStacked bounds how many mounts at one path are unmounted: it takes several processes to stack even two.
const maxStacked = 32

// IsMountPoint reports whether something is mounted at path. What is not there is none.
func IsMountPoint(ctx context.Context, mounter mount.Interface, path string) (bool, error) {
	mounted, err := abandon.Run(ctx, func() (bool, error) { return mounter.IsMountPoint(path) })
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return mounted, err
}

// TakeAway unmounts what is mounted at path, whatever it is, and removes the directory, with what somebody put there while nothing was
// mounted. What is mounted is never entered. warnf is told of an unmount that took force.
func TakeAway(ctx context.Context, mounter mount.Interface, unmounter *unmounting.Unmounter, path string, warnf func(format string, args ...any)) error {
	for range maxStacked {
		mounted, err := IsMountPoint(ctx, mounter, path)
		if err != nil {
			return err
		}
		if !mounted {
			return InUse(removal.All(ctx, path))
		}
		step, err := unmounter.Unmount(ctx, path)
		if err != nil {
			return WhyInUse(mounter, path, err)
		}
		if step != unmounting.Plain {
			warnf("%s was unmounted %s, since what is below it does not answer", path, step)
		}
	}
	return volume.Errorf(volume.ErrInUse, "%s is still a mount point after %d unmounts", path, maxStacked)
}

// RemoveEmpty removes the directory, and those above it up to root, as far as they are empty.
func RemoveEmpty(root, dir string) {
	for ; dir != root && dir != filepath.Dir(dir) && syscall.Rmdir(dir) == nil; dir = filepath.Dir(dir) {
	}
}
