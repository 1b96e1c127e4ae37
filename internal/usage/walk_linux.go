// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"context"
	"fmt"
	"sync"

	"github.com/volumekit/volumekit/internal/abandon"
	"github.com/volumekit/volumekit/internal/descent"
	"golang.org/x/sys/unix"
)

// blockSize is the unit of st_blocks in bytes, whatever the block size of the file system is; see stat(3type).
const blockSize = 512

// Walk measures path and everything beneath it, as "du -sx" does: allocated blocks are counted, hard links once, and
// symbolic links are not followed, not even path itself; the directories that lead to path may be symbolic links. What
// is mounted beneath path is not counted and not asked anything, so that a server that is gone does no harm. Unlike with
// du, this holds for bind mounts from the same file system too, and the subvolumes of a btrfs are counted. If path is a
// mount point, what is mounted there is measured.
//
// What vanishes meanwhile is not counted; what is moved meanwhile may be or not. What cannot be read does not end the
// walk: the result is then what could be counted, with an error that names the first such file. If path does not exist,
// the error wraps fs.ErrNotExist.
//
// When ctx ends, Walk returns at once, with the error of ctx or its cause, even if the file system does not answer; what
// it was doing then ends when the system call under way does. Of a network file system it takes the attributes that the
// kernel knows, which may be a few seconds old.
//
// Walk needs Linux 5.8, for STATX_ATTR_MOUNT_ROOT.
func Walk(ctx context.Context, path string) (Usage, error) {
	return abandon.Run(ctx, func() (Usage, error) { return walk(ctx, path) })
}

func walk(ctx context.Context, path string) (Usage, error) {
	var st unix.Statx_t
	if err := statx(path, &st); err != nil {
		return Usage{}, fmt.Errorf("usage of %q: statx: %w", path, err)
	}
	total := Usage{Bytes: int64(st.Blocks) * blockSize, Inodes: 1}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return total, nil
	}
	fd, err := open(path)
	if err != nil {
		return total, fmt.Errorf("usage of %q: open: %w", path, err)
	}
	w := &walker{linked: make(map[file]struct{})}
	visitors := make([]descent.Visitor, walkers)
	for i := range visitors {
		visitors[i] = &counter{walker: w}
	}
	descent.Walk(fd, path, visitors, func() bool { return ctx.Err() != nil })
	if err := ctx.Err(); err != nil {
		return Usage{}, err
	}
	for _, v := range visitors {
		part := v.(*counter).total
		total.Bytes += part.Bytes
		total.Inodes += part.Inodes
	}
	if w.failed != nil {
		return total, fmt.Errorf("usage of %q is incomplete: %w", path, w.failed)
	}
	return total, nil
}

// walker is what the goroutines of one Walk share.
type walker struct {
	mu     sync.Mutex
	linked map[file]struct{} // those with several names that have been counted
	failed error             // the first failure
}

type file struct {
	major, minor uint32
	inode        uint64
}

func (w *walker) fail(call, path string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.failed = fmt.Errorf("%s %q: %w", call, path, err)
	}
}

// counted says whether the file was counted before under another name, and marks it as counted.
func (w *walker) counted(st *unix.Statx_t) bool {
	f := file{st.Dev_major, st.Dev_minor, st.Ino}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, counted := w.linked[f]
	w.linked[f] = struct{}{}
	return counted
}

// counter counts what one goroutine visits.
type counter struct {
	*walker
	total Usage
	st    unix.Statx_t
}

// Enter does nothing: a directory has been counted as an entry of the one that it is in.
func (c *counter) Enter(descent.Directory) {}

func (c *counter) Visit(dir descent.Directory, e descent.Entry) bool {
	st := &c.st
	if err := e.Statx(dir.FD, statxMask, st); err != nil {
		if !descent.Gone(err) {
			c.fail("statx", dir.Path()+"/"+e.Name(), err)
		}
		return false
	}
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 || !isDir && st.Nlink > 1 && c.counted(st) {
		return false
	}
	c.total.Bytes += int64(st.Blocks) * blockSize
	c.total.Inodes++
	return isDir
}

func (c *counter) Fail(call, path string, err error) {
	if err != descent.ErrMoved { // what was moved is left to where it is now
		c.fail(call, path, err)
	}
}

const statxMask = unix.STATX_TYPE | unix.STATX_NLINK | unix.STATX_INO | unix.STATX_BLOCKS

func statx(path string, st *unix.Statx_t) error {
	// Without DONT_SYNC, NFS would write back what is dirty before it answers.
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	for {
		if err := unix.Statx(unix.AT_FDCWD, path, flags, statxMask, st); err != unix.EINTR {
			return err
		}
	}
}

func open(path string) (int, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}
