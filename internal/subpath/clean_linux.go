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

// Clean takes away what [Bind] made below dir, a pod's "volume-subpaths", and dir itself. Nothing has to be known of the
// pod: each dir/VOLUME/CONTAINER/INDEX is unmounted, as often as something is mounted on it, and the empty directory or
// file that it was mounted on is removed, then the directories above. It can be repeated; what is absent is no error.
//
// A target that is in use, or has something mounted inside, is unmounted lazily: it is only a second view of the volume.
// What is mounted inside goes from that view only, unless it was mounted nowhere else.
//
// Everything else is left and reported: a file with content, a symbolic link, a mount in another place than Bind makes
// them. No link is followed, nothing that is mounted is entered, no server of a file system is asked, and the mount table
// is not read. When ctx ends, the call is given up, see package abandon, and has to be repeated.
func Clean(ctx context.Context, dir string) error { return cleanUp(ctx, dir, depth) }

// CleanVolume is [Clean] for the targets of one volume, dir being the "volume-subpaths/VOLUME" of its pod.
func CleanVolume(ctx context.Context, dir string) error { return cleanUp(ctx, dir, depth-1) }

// depth is how many directories are above a target: the pod's, the volume's and the container's.
const depth = 3

func cleanUp(ctx context.Context, dir string, levels int) error {
	_, err := abandon.Run(ctx, func() (struct{}, error) { return struct{}{}, clean(ctx, dir, levels) })
	if err != nil {
		return fmt.Errorf("clean up the subPath mounts in %q: %w", dir, err)
	}
	return nil
}

func clean(ctx context.Context, dir string, levels int) error {
	above, err := unix.Open(filepath.Dir(dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: filepath.Dir(dir), Err: err}
	}
	c := cleaner{ctx: ctx}
	p := place{dir: above, name: filepath.Base(dir), path: dir}
	defer p.close()
	c.directory(p, levels)
	if ctx.Err() != nil {
		c.report(context.Cause(ctx))
	}
	return errors.Join(c.failed...)
}

type cleaner struct {
	ctx    context.Context
	failed []error
	more   bool
}

// maxReported bounds the failures that one error names.
const maxReported = 32

func (c *cleaner) report(err error) {
	switch {
	case len(c.failed) < maxReported:
		c.failed = append(c.failed, err)
	case !c.more:
		c.more = true
		c.failed = append(c.failed, errors.New("and more"))
	}
}

// directory removes a directory that is above targets by so many levels, and returns whether it is gone.
func (c *cleaner) directory(p place, levels int) (gone bool) {
	fd, err := descent.Open(p.dir, p.name, unix.O_RDONLY|unix.O_DIRECTORY)
	switch err {
	case nil:
	case unix.ENOENT:
		return true
	case unix.EXDEV:
		c.report(fmt.Errorf("something is mounted on %q, where no subPath is mounted: unmount it, then clean up again", p.path))
		return false
	case unix.ENOTDIR, unix.ELOOP:
		c.report(fmt.Errorf("%q is not a directory, and was left as it is", p.path))
		return false
	default:
		c.report(&os.PathError{Op: "open", Path: p.path, Err: explain(err)})
		return false
	}
	empty := c.contents(fd, p.path, levels)
	unix.Close(fd)
	if !empty {
		return false
	}
	if err := p.remove(); err != nil {
		c.report(err)
		return false
	}
	return true
}

// contents removes what is in a directory that is above targets by so many levels, and returns whether all is gone.
func (c *cleaner) contents(fd int, path string, levels int) (gone bool) {
	names, err := allNames(fd)
	if err != nil {
		c.report(&os.PathError{Op: "read", Path: path, Err: err})
		return false
	}
	gone = true
	for _, name := range names {
		if c.ctx.Err() != nil {
			return false
		}
		p := place{dir: fd, name: name, path: path + "/" + name}
		if levels > 1 {
			gone = c.directory(p, levels-1) && gone
			continue
		}
		err := p.unmount(c.ctx)
		if err == nil {
			err = p.remove()
		}
		if err != nil {
			c.report(err)
			gone = false
		}
	}
	return gone
}

func allNames(dir int) ([]string, error) {
	var all []string
	for buf := make([]byte, 8192); ; {
		names, err := descent.ReadNames(dir, buf)
		if err != nil || len(names) == 0 {
			return all, err
		}
		all = append(all, names...)
	}
}

// unmount takes away every mount there, the uppermost first.
func (p place) unmount(ctx context.Context) error {
	for vain := false; ; {
		fd, err := p.open()
		switch {
		case err == nil:
			unix.Close(fd)
			return nil
		case err == unix.ENOENT:
			return nil
		case err != unix.EXDEV:
			return &os.PathError{Op: "open", Path: p.path, Err: explain(err)}
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		err = p.unmountOne()
		// EINVAL: perhaps somebody else has unmounted it. The next look tells.
		if err != nil && (err != unix.EINVAL || vain) {
			return &os.PathError{Op: "unmount", Path: p.path, Err: err}
		}
		vain = err != nil
	}
}

func (p place) unmountOne() error {
	path := fmt.Sprintf("%s/%s", procPath(p.dir), p.name)
	unmount := func(flags int) error {
		return retry(func() error { return unix.Unmount(path, flags|unix.UMOUNT_NOFOLLOW) })
	}
	err := unmount(0)
	if err != unix.EBUSY {
		return err
	}
	// Lazily, what is mounted inside is unmounted too, and with it its peers: in the volume, if the mount here is a peer
	// of the volume's, as those that the kubelet makes are.
	if err := unix.Mount("", path, "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("it is in use, and cannot be parted from the volume to unmount it lazily: %w", err)
	}
	return unmount(unix.MNT_DETACH)
}

// remove removes an empty directory or an empty file.
func (p place) remove() error {
	fd, err := p.open()
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: p.path, Err: explain(err)}
	}
	stat, err := statFD(fd)
	unix.Close(fd)
	if err != nil {
		return &os.PathError{Op: "statx", Path: p.path, Err: err}
	}
	flags := 0
	switch mode := stat.Mode & unix.S_IFMT; {
	case mode == unix.S_IFDIR:
		flags = unix.AT_REMOVEDIR
	case mode != unix.S_IFREG:
		return fmt.Errorf("%q is neither a directory nor a regular file, and was left as it is", p.path)
	case stat.Size > 0:
		return fmt.Errorf("%q is a file with content, and was left as it is", p.path)
	}
	err = retry(func() error { return unix.Unlinkat(p.dir, p.name, flags) })
	if err == nil || err == unix.ENOENT {
		return nil
	}
	return &os.PathError{Op: "remove", Path: p.path, Err: err}
}
