// SPDX-License-Identifier: Apache-2.0

package subpath

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// walk resolves a subPath name by name, for what the kernel cannot do in one go: making directories, and following
// absolute symbolic links that stay in the volume. Each look is taken from the volume's root, with symbolic links
// forbidden, so that it cannot leave the volume; where a link leads is worked out here.
type walk struct {
	ctx        context.Context
	root       int
	volumePath string
}

// maxLinks is MAXSYMLINKS of Linux.
const maxLinks = 40

const noLinks = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_SYMLINKS

// open begins anew while a directory that was just seen is replaced by a link.
func (w *walk) open(names []string) (int, error) {
	var at []string
	var err error
	for range maxTries {
		if w.ctx.Err() != nil {
			return -1, context.Cause(w.ctx)
		}
		fd := -1
		if at, err = w.resolve(names); err == nil {
			fd, err = openBeneath(w.root, join(at), noLinks)
		}
		if err != unix.ELOOP && err != unix.ENOENT {
			return fd, err
		}
	}
	if err == unix.ENOENT { // from where nothing can be made: procfs, a volume whose root was removed
		return -1, fmt.Errorf("it does not exist, and cannot be made: %w", err)
	}
	return -1, unix.EAGAIN
}

// resolve returns the names that lead from the root to where names leads, none of them a link when it was looked at. A bare
// ELOOP or ENOENT says that this changed meanwhile.
func (w *walk) resolve(names []string) ([]string, error) {
	var at []string
	todo := names
	own := len(names) // how many of todo, at its end, are the subPath's own and not a link's
	links, made := 0, 0
	for len(todo) > 0 {
		name := todo[0]
		if name == ".." { // only links hold it
			if len(at) == 0 {
				return nil, refuse(ErrOutside, "a symbolic link on the way leads above the volume's root")
			}
			at, todo = at[:len(at)-1], todo[1:]
			continue
		}
		here := join(append(at[:len(at):len(at)], name))
		mode, target, err := w.look(here)
		switch {
		case err == unix.ENOENT && len(todo) > own:
			return nil, fmt.Errorf("a symbolic link on the way leads to %q, which does not exist: %w", here, fs.ErrNotExist)
		case err == unix.ENOENT:
			if made++; made > len(names)+maxTries { // somebody removes it again and again
				return nil, err
			}
			if err := w.mkdir(at, name); err != nil {
				return nil, err
			}
			// What is there now is looked at like all else.
		case err != nil:
			return nil, err
		case mode == unix.S_IFLNK:
			if links++; links > maxLinks {
				return nil, refuse(ErrInvalid, "more than %d symbolic links are on the way", maxLinks)
			}
			var inside bool
			if strings.HasPrefix(target, "/") {
				at = nil
				target, inside = w.beneath(target)
				if !inside {
					return nil, refuse(ErrOutside, "%q is a symbolic link to %.256q, which is outside the volume", here, target)
				}
			}
			own = min(own, len(todo)-1)
			todo = append(elements(target), todo[1:]...)
		case mode != unix.S_IFDIR && len(todo) > 1:
			return nil, refuse(ErrInvalid, "%q is not a directory, so nothing is below it", here)
		default:
			at, todo = append(at, name), todo[1:]
			own = min(own, len(todo))
		}
	}
	return at, nil
}

// look returns the type of what is at a path beneath the root, and what it holds if it is a symbolic link.
func (w *walk) look(path string) (mode uint16, target string, err error) {
	fd, err := openat2(w.root, path, unix.O_PATH|unix.O_NOFOLLOW, noLinks)
	if err != nil {
		return 0, "", err
	}
	defer unix.Close(fd)
	stat, err := statFD(fd)
	if err != nil {
		return 0, "", err
	}
	if mode = stat.Mode & unix.S_IFMT; mode == unix.S_IFLNK {
		target, err = readlink(fd)
	}
	return mode, target, err
}

// beneath returns the rest of an absolute path that begins with the volume's, as it was given or as the kernel has it.
func (w *walk) beneath(target string) (rest string, inside bool) {
	roots := []string{w.volumePath}
	if resolved, err := os.Readlink(procPath(w.root)); err == nil {
		roots = append(roots, resolved)
	}
	for _, root := range roots {
		rest, inside := strings.CutPrefix(target, strings.TrimSuffix(filepath.Clean(root), "/"))
		if inside && (rest == "" || rest[0] == '/') {
			return rest, true
		}
	}
	return target, false
}

// mkdir makes a directory with the permissions of the volume's root. That there is something by now is no error.
func (w *walk) mkdir(at []string, name string) error {
	if w.ctx.Err() != nil { // nobody waits for the outcome
		return context.Cause(w.ctx)
	}
	volume, err := statFD(w.root)
	if err != nil {
		return err
	}
	dir, err := openat2(w.root, join(at), unix.O_PATH|unix.O_DIRECTORY, noLinks)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	// The setgid bit is left to the kernel, which takes it from dir together with the group.
	switch err := mkdirExact(dir, name, uint32(volume.Mode)&(0o777|unix.S_ISVTX)); err {
	case nil, unix.EEXIST:
		return nil
	case unix.ENOENT: // dir was removed; begin anew
		return err
	default:
		return fmt.Errorf("%q does not exist, and cannot be made: %w", join(append(at[:len(at):len(at)], name)), err)
	}
}

func statFD(fd int) (unix.Statx_t, error) {
	var stat unix.Statx_t
	const flags = unix.AT_EMPTY_PATH | unix.AT_STATX_DONT_SYNC
	err := retry(func() error {
		return unix.Statx(fd, "", flags, unix.STATX_TYPE|unix.STATX_MODE|unix.STATX_INO|unix.STATX_SIZE, &stat)
	})
	return stat, err
}

// readlink returns what the symbolic link holds that the descriptor is open on.
func readlink(fd int) (string, error) {
	buf := make([]byte, maxPath+1)
	n, err := unix.Readlinkat(fd, "", buf)
	return string(buf[:max(n, 0)]), err
}

// procPath is a path that leads to what a descriptor of this process is open on.
func procPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }
