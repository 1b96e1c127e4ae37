// SPDX-License-Identifier: Apache-2.0

package volumedir

import (
	"errors"
	"slices"
	"sync/atomic"
	"syscall"

	"k8s.io/mount-utils"

	"github.com/volumekit/volumekit/volume"
)

// Tmpfs mounts file systems in memory. The zero value is ready for use, by several goroutines.
type Tmpfs struct {
	// noSwapRefused remembers that the kernel does not know the option "noswap", or does not let us use it.
	noSwapRefused atomic.Bool
}

// NoSwapRefused tells whether it has been found out that "noswap" cannot be had.
func (t *Tmpfs) NoSwapRefused() bool { return t.noSwapRefused.Load() }

// Mount mounts a tmpfs, with "noswap" unless the kernel refuses that. It is the mount that is tried, since a version number tells
// neither what was ported back nor what a user namespace forbids.
func (t *Tmpfs) Mount(mounter mount.Interface, path string, options []string) error {
	mount := func(options []string) error {
		return mounter.MountSensitiveWithoutSystemd("tmpfs", path, "tmpfs", options, nil)
	}
	if !t.noSwapRefused.Load() {
		err := mount(append(slices.Clip(options), "noswap"))
		if err == nil || !mayRefuseOption(err) {
			return err
		}
	}
	if err := mount(options); err != nil {
		return err
	}
	t.noSwapRefused.Store(true)
	return nil
}

// mayRefuseOption reports whether an error of a mount may be about an option: the kernel says EINVAL, a mount program
// something else.
func mayRefuseOption(err error) bool {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno == syscall.EINVAL
	}
	return !errors.Is(err, volume.ErrUncertain)
}
