// SPDX-License-Identifier: Apache-2.0

package devicemount

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"

	"github.com/volumekit/volumekit/internal/abandon"
)

// IdentityOf says what a device is, for a record: of a file its file system and inode, of a block device its number. It is empty for
// anything else.
func IdentityOf(info fs.FileInfo) string {
	st := info.Sys().(*syscall.Stat_t)
	switch info.Mode().Type() {
	case fs.ModeDevice:
		return fmt.Sprintf("device %d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	case 0:
		return fmt.Sprintf("file %d:%d %d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	}
	return ""
}

// bootID returns the kernel's, empty if it cannot be read.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// isBusy reports whether somebody uses a block device for itself: it is mounted, or part of another one.
func isBusy(ctx context.Context, device string) (bool, error) {
	return abandon.Run(ctx, func() (bool, error) {
		f, err := os.OpenFile(device, os.O_RDONLY|unix.O_EXCL, 0)
		if errors.Is(err, unix.EBUSY) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		return false, f.Close()
	})
}

// A program such as an fsck whose caller was killed has a device for itself as long as it runs.
const (
	busyPatience = 5 * time.Second
	busyPause    = 50 * time.Millisecond
)

// staysBusy reports whether somebody uses the device for itself, and not just for a while: nobody tells when a program is done with it.
func (d Device) staysBusy(ctx context.Context, mounter mount.Interface) (bool, error) {
	for end := time.Now().Add(busyPatience); ; {
		busy, err := isBusy(ctx, d.Path)
		if err != nil || !busy || time.Now().After(end) {
			return busy, err
		}
		if mounted, err := d.isMounted(ctx, mounter); err != nil || mounted {
			return true, err
		}
		select {
		case <-ctx.Done():
			return true, context.Cause(ctx)
		case <-time.After(busyPause):
		}
	}
}

// isMounted reports whether the device is mounted where this process can see it.
func (d Device) isMounted(ctx context.Context, mounter mount.Interface) (bool, error) {
	return abandon.Run(ctx, func() (bool, error) {
		table, err := mounter.List()
		return slices.ContainsFunc(table, func(m mount.MountPoint) bool { return m.Device == d.Path }), err
	})
}
