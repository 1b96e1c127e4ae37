// SPDX-License-Identifier: Apache-2.0

package subpath

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/abandon"
	"github.com/volumekit/volumekit/internal/descent"
)

// Bind lets target show what subPath names in the volume at volumePath, with what is mounted beneath it: a directory or a
// file, made to match, on which that is mounted. Directories that are missing in the volume are made as by [Open], those
// that lead to target with mode 0750, the kubelet's.
//
// A target that shows it already is left as it is, without a call that mounts or unmounts. One that shows something else
// (the volume was mounted anew, the file was replaced) is unmounted lazily, as the kubelet does, so that those who still
// use the old one keep it, and is mounted anew. Read-only and the like are not asked about: a target has the options that
// the volume's mount had when it was made.
//
// Mounts that come or go in the volume later come and go at target as well, so that it keeps no device busy that was
// unmounted from the volume; nothing that is mounted or unmounted at target reaches the volume (MS_SLAVE). Target can be
// bound recursively by a container runtime.
//
// The directories that lead to target are trusted, and may be symbolic links; target itself is not followed. Errors are
// those of [Open], and of mounting. When ctx ends, the call is given up, see package abandon: its effect is uncertain
// until the next Bind or [Clean]. There must not be two calls for one target at once.
func Bind(ctx context.Context, volumePath, subPath, target string) error {
	_, err := abandon.Run(ctx, func() (struct{}, error) { return struct{}{}, bind(ctx, volumePath, subPath, target) })
	if err != nil {
		return fmt.Errorf("show subPath %.256q of the volume at %q on %q: %w", subPath, volumePath, target, err)
	}
	return nil
}

func bind(ctx context.Context, volumePath, subPath, target string) error {
	source, err := open(ctx, volumePath, subPath)
	if err != nil {
		return err
	}
	defer source.Close()
	stat, err := statFD(int(source.Fd()))
	if err != nil {
		return err
	}
	place, err := openPlace(target)
	if err != nil {
		return err
	}
	defer place.close()
	if place.shows(stat) {
		return nil
	}
	mount, err := clone(int(source.Fd()))
	if err != nil {
		return err
	}
	defer unix.Close(mount.fd)
	if err := place.unmount(ctx); err != nil {
		return err
	}
	fd, err := place.match(stat.Mode&unix.S_IFMT == unix.S_IFDIR)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if ctx.Err() != nil { // nobody waits for the outcome
		return context.Cause(ctx)
	}
	return mount.attach(fd)
}

// detached is a mount that is nowhere yet.
type detached struct {
	fd   int
	peer bool // it still has the propagation of its source, because the kernel cannot change that before it is attached
}

// clone returns a copy of the mounts at and beneath what fd is open on.
func clone(fd int) (detached, error) {
	var copied int
	err := retry(func() (err error) {
		copied, err = unix.OpenTree(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		return err
	})
	switch err {
	case nil:
	case unix.ENOSYS:
		return detached{}, fmt.Errorf("needs open_tree(2) (Linux 5.2 or later, not hidden by a seccomp filter): %w", errors.Join(errors.ErrUnsupported, err))
	default:
		return detached{}, os.NewSyscallError("open_tree", err)
	}
	// A copy of a shared mount is its peer: to unmount what is beneath the copy would unmount it in the volume.
	attr := unix.MountAttr{Propagation: unix.MS_SLAVE}
	err = unix.MountSetattr(copied, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr)
	if err != nil && err != unix.ENOSYS { // Linux 5.12
		unix.Close(copied)
		return detached{}, os.NewSyscallError("mount_setattr", err)
	}
	return detached{fd: copied, peer: err != nil}, nil
}

func (d detached) attach(target int) error {
	const flags = unix.MOVE_MOUNT_F_EMPTY_PATH | unix.MOVE_MOUNT_T_EMPTY_PATH
	if err := retry(func() error { return unix.MoveMount(d.fd, "", target, "", flags) }); err != nil {
		return os.NewSyscallError("move_mount", err)
	}
	if !d.peer {
		return nil
	}
	return os.NewSyscallError("mount(MS_SLAVE)", unix.Mount("", procPath(d.fd), "", unix.MS_SLAVE|unix.MS_REC, ""))
}

// place is a name in a directory that containers cannot reach: where something is, or is to be, mounted.
type place struct {
	dir  int
	name string
	path string // for messages
}

// openPlace makes the directory of target if need be. The kubelet gives it the same mode.
func openPlace(target string) (place, error) {
	dir := filepath.Dir(target)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return place{}, err
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return place{}, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return place{dir: fd, name: filepath.Base(target), path: target}, nil
}

func (p place) close() { unix.Close(p.dir) }

// open returns an O_PATH descriptor of what is there, be it a symbolic link. The error is EXDEV if that is a mount, whose
// server is not asked for it; see [descent.Open].
func (p place) open() (int, error) { return descent.Open(p.dir, p.name, unix.O_PATH) }

// shows tells whether the uppermost mount there is one of the file that want was taken of. It cannot be a later one with
// the same number: the mount keeps its file, and its file system, from being given away. An error counts as no, as what
// comes of it does no harm: another view of the same is made.
func (p place) shows(want unix.Statx_t) bool {
	fd, err := p.open()
	if err == nil {
		unix.Close(fd)
	}
	if err != unix.EXDEV {
		return false
	}
	var found unix.Statx_t
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	err = retry(func() error { return unix.Statx(p.dir, p.name, flags, unix.STATX_INO, &found) })
	return err == nil && found.Ino == want.Ino && found.Dev_major == want.Dev_major && found.Dev_minor == want.Dev_minor
}

// match returns a descriptor of a directory, or of an empty file, that is there or is made.
func (p place) match(directory bool) (int, error) {
	fd, err := p.open()
	if err == nil {
		stat, err := statFD(fd)
		mode := stat.Mode & unix.S_IFMT
		if err == nil && directory == (mode == unix.S_IFDIR) && mode != unix.S_IFLNK {
			return fd, nil
		}
		unix.Close(fd)
		if err == nil {
			err = p.remove()
		}
		if err != nil {
			return -1, err
		}
	} else if err != unix.ENOENT {
		return -1, &os.PathError{Op: "open", Path: p.path, Err: explain(err)}
	}
	if directory {
		err = retry(func() error { return unix.Mkdirat(p.dir, p.name, 0o750) })
	} else {
		err = retry(func() (err error) {
			fd, err = unix.Openat(p.dir, p.name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o640)
			return err
		})
		if err == nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		return -1, &os.PathError{Op: "make", Path: p.path, Err: err}
	}
	if fd, err = p.open(); err != nil {
		return -1, &os.PathError{Op: "open", Path: p.path, Err: err}
	}
	return fd, nil
}
