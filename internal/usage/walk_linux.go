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

const (
	// walkers is the number of goroutines that one Walk uses at most: two measure a volume with many files nearly twice as
	// fast, more would take the node's processors from its pods.
	walkers = 2

	// shareNames is the number of names in one directory from which on they are handed to another goroutine. Looking at
	// one takes about a microsecond, starting a goroutine a few.
	shareNames = 200

	// shareDepth is the depth down to which work is handed over, since its path has to be built for that.
	shareDepth = 32

	// blockSize is the unit of st_blocks in bytes, whatever the block size of the file system is; see stat(3type).
	blockSize = 512
)

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
	w := &walker{ctx: ctx, buffers: make(chan []byte, walkers), linked: make(map[file]struct{})}
	for range walkers {
		w.buffers <- make([]byte, 32<<10)
	}
	var st unix.Statx_t
	if err := statx(unix.AT_FDCWD, path, &st); err != nil {
		return Usage{}, fmt.Errorf("usage of %q: statx: %w", path, err)
	}
	w.total = Usage{Bytes: int64(st.Blocks) * blockSize, Inodes: 1}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return w.total, nil
	}
	fd, err := open(path)
	if err != nil {
		return w.total, fmt.Errorf("usage of %q: open: %w", path, err)
	}
	w.share(func(b *branch) { b.walk(b.list()) }, fd, path, 0)
	w.wait.Wait()
	if err := ctx.Err(); err != nil {
		return Usage{}, err
	}
	if w.failed != nil {
		return w.total, fmt.Errorf("usage of %q is incomplete: %w", path, w.failed)
	}
	return w.total, nil
}

// walker is one Walk.
type walker struct {
	ctx     context.Context // of the one call that the walker is made for
	wait    sync.WaitGroup
	buffers chan []byte // one for each goroutine that may still be started

	mu     sync.Mutex // protects what follows
	total  Usage
	linked map[file]struct{} // those with several names that have been counted
	failed error             // the first failure
}

type file struct {
	major, minor uint32
	inode        uint64
}

// share runs a function on a branch of its own at the directory fd, in another goroutine, if one more may be started.
// The descriptor then belongs to the branch.
func (w *walker) share(run func(*branch), fd int, path string, depth int) bool {
	select {
	case buf := <-w.buffers:
		w.wait.Go(func() {
			b := &branch{walker: w, at: descent.New(fd, path), depth: depth, buf: buf}
			run(b)
			b.at.Close()
			w.add(b.total)
			w.buffers <- buf
		})
		return true
	default:
		return false
	}
}

func (w *walker) add(u Usage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total.Bytes += u.Bytes
	w.total.Inodes += u.Inodes
}

func (w *walker) fail(op, path string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.failed = fmt.Errorf("%s %q: %w", op, path, err)
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

func statx(dir int, name string, st *unix.Statx_t) error {
	// Without DONT_SYNC, NFS would write back what is dirty before it answers, and whatever is mounted on name would be
	// asked before it can be left out.
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	const mask = unix.STATX_TYPE | unix.STATX_NLINK | unix.STATX_INO | unix.STATX_BLOCKS
	for {
		if err := unix.Statx(dir, name, flags, mask, st); err != unix.EINTR {
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
