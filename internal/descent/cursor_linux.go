// SPDX-License-Identifier: Apache-2.0

package descent

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// MaxHeld is the largest number of descriptors that one Cursor holds.
const MaxHeld = 32

// ErrMoved says that the way back up was lost, because a directory of the path was moved elsewhere, or something was
// mounted on one, while the Cursor was beneath it.
var ErrMoved = errors.New("the directory was moved while it was being walked")

// Cursor is a place in a directory tree: the directory that it was begun in, and the names that lead from there to the
// current directory. It is not safe for concurrent use.
//
// Its memory grows with its depth: the name and about 100 bytes for each level.
type Cursor struct {
	path   string
	levels []level
	held   int // levels beside the first whose directory is open: always the deepest ones
}

type level struct {
	name string
	fd   int      // -1 while it is closed to save descriptors
	id   identity // set when fd is closed
}

// New returns a Cursor at the directory that fd is open on, at depth 0. The Cursor owns fd from now on. The path is
// for [Cursor.Path] only. An fd opened with O_PATH is enough to enter what is beneath it.
func New(fd int, path string) *Cursor {
	return &Cursor{path: path, levels: []level{{fd: fd}}}
}

// Dir returns the descriptor of the current directory. It is valid until the next call of Enter, Leave or Close.
func (c *Cursor) Dir() int { return c.last().fd }

// Depth returns the number of levels beneath the directory that the Cursor was begun in.
func (c *Cursor) Depth() int { return len(c.levels) - 1 }

// Name returns the name of the current directory in the one above; at depth 0 it is empty.
func (c *Cursor) Name() string { return c.last().name }

// Path returns the path of the current directory, for messages. It may be longer than any system call accepts.
func (c *Cursor) Path() string { return c.pathAt(c.Depth()) }

func (c *Cursor) pathAt(depth int) string {
	names := make([]string, 0, depth)
	for _, l := range c.levels[1 : depth+1] {
		names = append(names, l.name)
	}
	if len(names) == 0 {
		return c.path
	}
	return strings.TrimSuffix(c.path, "/") + "/" + strings.Join(names, "/")
}

// Enter makes the directory called name in the current one the current one. It returns the errors of [Open]. After an
// error the Cursor is where it was.
func (c *Cursor) Enter(name string) error {
	fd, err := Open(c.Dir(), name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	if depth, ok := c.releases(); ok {
		c.release(&c.levels[depth])
	}
	c.levels = append(c.levels, level{name: name, fd: fd})
	c.held++
	return nil
}

// Leave makes the directory above the current one. A directory that had to be closed on the way down is opened anew, so
// that reading it starts from its beginning. At depth 0 there is nothing above: calling Leave there is a mistake of the
// caller, and panics.
//
// If the directory above can no longer be reached, the Cursor goes up to depth 0, and the error is [ErrMoved].
func (c *Cursor) Leave() error {
	above := &c.levels[len(c.levels)-2]
	if above.fd < 0 {
		fd, err := openAbove(c.Dir(), above.id)
		if err != nil {
			for c.Depth() > 0 { // all that is between is closed
				c.drop()
			}
			return ErrMoved
		}
		above.fd = fd
		c.held++
	}
	c.drop()
	return nil
}

// Close closes all descriptors. The Cursor cannot be used any more.
func (c *Cursor) Close() {
	for len(c.levels) > 0 {
		c.drop()
	}
}

func (c *Cursor) last() *level { return &c.levels[len(c.levels)-1] }

// drop forgets the deepest level.
func (c *Cursor) drop() {
	l := c.last()
	if l.fd >= 0 {
		unix.Close(l.fd)
		if len(c.levels) > 1 {
			c.held--
		}
	}
	c.levels = c.levels[:len(c.levels)-1]
}

// releases tells whether the next Enter closes a directory to save descriptors, and at which depth that is.
func (c *Cursor) releases() (depth int, ok bool) {
	return len(c.levels) - c.held, c.held+2 > MaxHeld // with the first level and the new one
}

// release closes the directory of l, and keeps what it takes to recognise it.
func (c *Cursor) release(l *level) {
	l.id, _ = identify(l.fd) // the zero identity matches nothing
	unix.Close(l.fd)
	l.fd = -1
	c.held--
}

// openAbove opens the directory above dir if it is the one that id was taken of.
//
// ".." may lead anywhere when somebody moves dir meanwhile; nothing is done with the descriptor before it is known.
func openAbove(dir int, id identity) (int, error) {
	fd, err := openat2(dir, "..", unix.O_RDONLY|unix.O_DIRECTORY,
		unix.RESOLVE_NO_XDEV|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
	if err != nil {
		return -1, err
	}
	if found, err := identify(fd); err != nil || found == (identity{}) || found != id {
		unix.Close(fd)
		return -1, ErrMoved
	}
	return fd, nil
}

// identity tells one directory of a mount from another. The time of birth, where the file system keeps one, tells a
// directory from a later one that was given the same inode number.
type identity struct {
	major, minor uint32
	inode        uint64
	born         unix.StatxTimestamp
}

func identify(fd int) (identity, error) {
	var st unix.Statx_t
	err := retry(func() error {
		return unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_INO|unix.STATX_BTIME, &st)
	})
	if err != nil {
		return identity{}, err
	}
	id := identity{major: st.Dev_major, minor: st.Dev_minor, inode: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		id.born = st.Btime
	}
	return id, nil
}
