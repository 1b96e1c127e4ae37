// SPDX-License-Identifier: Apache-2.0

package hardlimit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/abandon"
	"github.com/volumekit/volumekit/internal/loopdev"
)

// Mounted says whether what is mounted on dir is the directory's image, complete or not. The image's path is that of [Options].
// Its cost does not grow with the number of mounts and loop devices.
func Mounted(ctx context.Context, dir, image string) (bool, error) {
	if image == "" {
		image = ImagePath(dir)
	}
	for _, path := range []string{image, newPath(image)} {
		if _, mounted, err := mountedImage(ctx, dir, path); mounted || err != nil {
			return mounted, err
		}
	}
	return false, nil
}

// rootInode is the number of the root directory of every ext4.
const rootInode = 2

// mountedImage says whether what is mounted on dir is that image, and through which device.
func mountedImage(ctx context.Context, dir, image string) (device string, mounted bool, err error) {
	id, err := loopdev.FileIDOf(image)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	// What somebody else has mounted there may not answer.
	st, err := abandon.Run(ctx, func() (unix.Stat_t, error) {
		var st unix.Stat_t
		return st, ignoringEINTR(func() error { return unix.Lstat(dir, &st) })
	})
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
		return "", false, nil
	case err != nil:
		return "", false, &os.PathError{Op: "lstat", Path: dir, Err: err}
	case unix.Major(uint64(st.Dev)) != loopMajor || st.Ino != rootInode:
		return "", false, nil
	}
	// The minor number is that of the device only where loop devices have no partitions.
	link, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", loopMajor, unix.Minor(uint64(st.Dev))))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	device = filepath.Join("/dev", filepath.Base(link))
	handle, err := loopdev.Open(device)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENXIO) {
		return "", false, nil // not attached
	}
	if err != nil {
		return "", false, err
	}
	defer func() { _ = handle.Close() }()
	return device, handle.Backing == id, nil
}

// loopMajor is the major number of all loop devices.
const loopMajor = 7

// statx asks about what is at path, which may be something mounted there that does not answer.
func statx(ctx context.Context, path string) (unix.Statx_t, error) {
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	st, err := abandon.Run(ctx, func() (unix.Statx_t, error) {
		var st unix.Statx_t
		return st, ignoringEINTR(func() error { return unix.Statx(unix.AT_FDCWD, path, flags, unix.STATX_TYPE, &st) })
	})
	if err != nil {
		return st, &os.PathError{Op: "statx", Path: path, Err: err}
	}
	return st, nil
}

// isHidden says whether a file system is mounted on dir that is not the one that dir is on. It may not answer, and nothing is to be
// asked of it. A bind mount of the directory onto itself hides nothing.
func isHidden(ctx context.Context, dir string) (bool, error) {
	st, err := statx(ctx, dir)
	if err != nil || st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return false, err
	}
	above, err := statx(ctx, filepath.Dir(dir))
	return st.Dev_major != above.Dev_major || st.Dev_minor != above.Dev_minor, err
}

// notMounted returns an error if something is mounted on dir.
func notMounted(ctx context.Context, dir string) error {
	st, err := statx(ctx, dir)
	switch {
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return &os.PathError{Op: "limit", Path: dir, Err: unix.ENOTDIR}
	case st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0:
		return somethingElse(dir)
	}
	return nil
}

func somethingElse(dir string) error {
	return fmt.Errorf("something else is mounted on %s: unmount it: %w", dir, ErrInUse)
}

func ignoringEINTR(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
