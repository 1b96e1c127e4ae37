// SPDX-License-Identifier: Apache-2.0

package subpath

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/abandon"
)

// Open returns what subPath names in the volume that is mounted, or just is, at volumePath: an O_PATH descriptor of a
// directory or of a file of any type. Nothing outside the volume is ever opened, whatever is renamed in it meanwhile.
//
// Directories that are missing are made, each with the permissions of the volume's root, whatever the umask is; group and
// setgid bit come from the directory above where that has the bit. Symbolic links are followed while they stay in the
// volume: relative ones, and absolute ones that begin with the volume's path on the host. What a link names must be there.
// What is mounted in the volume is entered.
//
// The directories that lead to volumePath are trusted, and may be symbolic links. Errors match [ErrInvalid] and
// [ErrOutside]; fs.ErrNotExist is one of a symbolic link to nothing, unix.EROFS one of a directory that cannot be made.
// When ctx ends the call is given up, see package abandon; it may still make directories.
func Open(ctx context.Context, volumePath, subPath string) (*os.File, error) {
	file, err := abandon.Run(ctx, func() (*os.File, error) { return open(ctx, volumePath, subPath) })
	if err != nil {
		return nil, fmt.Errorf("open subPath %.256q of the volume at %q: %w", subPath, volumePath, err)
	}
	return file, nil
}

func open(ctx context.Context, volumePath, subPath string) (*os.File, error) {
	if err := Check(subPath); err != nil {
		return nil, err
	}
	root, err := openRoot(volumePath)
	if err != nil {
		return nil, err
	}
	defer unix.Close(root)
	fd, err := openBeneath(root, join(elements(subPath)), unix.RESOLVE_BENEATH|unix.RESOLVE_NO_MAGICLINKS)
	switch err {
	case unix.ENOENT, unix.EXDEV, unix.EAGAIN:
		// What is missing is to be made, and an absolute link may lead back into the volume.
		w := walk{ctx: ctx, root: root, volumePath: volumePath}
		fd, err = w.open(elements(subPath))
	}
	if err != nil {
		return nil, explain(err)
	}
	return os.NewFile(uintptr(fd), subPath), nil
}

func openRoot(volumePath string) (int, error) {
	var fd int
	err := retry(func() (err error) {
		fd, err = unix.Open(volumePath, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err == unix.ENOTDIR {
		return -1, refuse(ErrInvalid, "the volume is not a directory, and has no subPaths")
	}
	if err != nil {
		return -1, fmt.Errorf("open the volume's root: %w", err)
	}
	return fd, nil
}

// maxTries bounds how often a resolution begins anew because somebody renamed something on the way.
const maxTries = 100

// openBeneath opens a path beneath root. The errors are those of openat2(2).
func openBeneath(root int, path string, resolve uint64) (int, error) {
	// O_PATH alone does not trigger an automount; O_PATH on a directory does, see open(2).
	fd, err := openat2(root, path, unix.O_PATH|unix.O_DIRECTORY, resolve)
	if err == unix.ENOTDIR {
		fd, err = openat2(root, path, unix.O_PATH, resolve)
	}
	return fd, err
}

func openat2(dir int, path string, flags, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: resolve}
	for range maxTries {
		var fd int
		err := retry(func() (err error) {
			fd, err = unix.Openat2(dir, path, &how)
			return err
		})
		// With RESOLVE_BENEATH the kernel gives up on ".." while anything is renamed on the machine.
		if err != unix.EAGAIN {
			return fd, err
		}
	}
	return -1, unix.EAGAIN
}

// explain says of a bare error of openat2(2) what it means here.
func explain(err error) error {
	switch err {
	case unix.ENOTDIR:
		return refuse(ErrInvalid, "something on the way is not a directory")
	case unix.ELOOP:
		return refuse(ErrInvalid, "the symbolic links on the way are too many, go in a circle, or are those of procfs")
	case unix.ENAMETOOLONG:
		return refuse(ErrInvalid, "the path, or a name in it, is too long for the volume's file system")
	case unix.EAGAIN:
		return fmt.Errorf("what is on the way is renamed again and again, %d attempts failed: %w", maxTries, err)
	case unix.ENOSYS:
		return fmt.Errorf("needs openat2(2) (Linux 5.6 or later, not hidden by a seccomp filter): %w", errors.Join(errors.ErrUnsupported, err))
	}
	return err
}

// retry repeats a system call that a signal interrupted; the Go runtime sends itself signals to preempt goroutines.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
