// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"context"
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/internal/descent"
	"golang.org/x/sys/unix"
)

// All removes path and everything beneath it. If path does not exist, there is nothing to do. If it is a file or a
// symbolic link, that is removed, and never what the link points to. The directories that lead to path are trusted, and
// may be symbolic links. Path must not end in "." or "..".
//
// What is mounted on path or beneath it is neither entered nor removed, be it a bind mount from the same file system or
// of a single file; everything around it is removed, and the error is, or wraps, a [*MountedError]. If path itself is
// a mount point, nothing is touched.
//
// What cannot be removed does not keep the rest from being removed. Directories that deny their owner access are
// given the permissions that are missing, other than the one that holds path. The error names what stayed, up to a limit.
//
// Others may add, remove and exchange entries meanwhile, calls of All for the same path included, without leading it
// out of path; what vanishes counts as removed. A directory in which somebody adds entries as fast as they go is
// given up after a while. The depth of the tree is not limited; the number of descriptors in use is, to about
// [descent.MaxHeld].
//
// The context is asked for each entry. When it ends, the error wraps the context's, and what was removed is gone; the
// next call goes on from there. A system call that hangs, as on a network file system whose server is gone, is not
// interrupted.
func All(ctx context.Context, path string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	parent, name, err := split(path)
	if err != nil {
		return err
	}
	// Most volumes are empty when they go, and then this is all.
	first := unlink(unix.AT_FDCWD, path, unix.AT_REMOVEDIR)
	if first == nil || first == unix.ENOENT {
		return nil
	}
	fd, err := open(parent, unix.O_PATH|unix.O_DIRECTORY)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return pathError("open", parent, err)
	}
	r := newRemover(path, descent.New(fd, strings.TrimSuffix(parent, "/")))
	defer r.at.Close()
	r.only = name
	if first == unix.ENOTEMPTY || first == unix.EEXIST {
		r.enter(name, first)
	} else {
		r.top().names = []string{name}
	}
	return r.run(ctx)
}

// Contents removes everything beneath dir as [All] does, and keeps dir itself with its permissions and its owner. If
// dir does not exist, there is nothing to do; if it is a symbolic link or no directory, that is an error. If dir itself
// is a mount point, nothing is touched, and the error is a [*MountedError].
func Contents(ctx context.Context, dir string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	parent, name, err := split(dir)
	if err != nil {
		return err
	}
	parentFD, err := open(parent, unix.O_PATH|unix.O_DIRECTORY)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return pathError("open", parent, err)
	}
	defer unix.Close(parentFD)
	fd, err := descent.Open(parentFD, name, unix.O_RDONLY|unix.O_DIRECTORY)
	switch err {
	case nil:
	case unix.ENOENT:
		return nil
	case unix.EXDEV:
		return &MountedError{Paths: []string{dir}}
	default:
		return pathError("open", dir, err)
	}
	r := newRemover(dir, descent.New(fd, dir))
	defer r.at.Close()
	return r.run(ctx)
}

// InMount is [Contents] for a directory that may be a mount point: then what is mounted there is emptied. What is mounted beneath it
// stays.
func InMount(ctx context.Context, dir string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	fd, err := open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	switch err {
	case nil:
	case unix.ENOENT:
		return nil
	default:
		return pathError("open", dir, err)
	}
	r := newRemover(dir, descent.New(fd, dir))
	defer r.at.Close()
	return r.run(ctx)
}

// split parts the last element from the path, and leaves the rest to the kernel: cleaning "link/../x" would change
// what it means.
func split(path string) (parent, name string, err error) {
	path = strings.TrimRight(path, "/")
	parent, name = ".", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		parent, name = path[:i+1], path[i+1:]
	}
	if name == "" || name == "." || name == ".." {
		return "", "", fmt.Errorf("cannot remove %q: it must end in the name of what is to be removed", path)
	}
	return parent, name, nil
}

func unlink(dir int, name string, flags int) error {
	for {
		if err := unix.Unlinkat(dir, name, flags); err != unix.EINTR {
			return err
		}
	}
}

func open(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}
