// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"sync/atomic"

	"github.com/volumekit/volumekit/internal/descent"
	"golang.org/x/sys/unix"
)

// changer changes what one goroutine visits.
type changer struct {
	target  *target
	failure *failure
	st      unix.Statx_t

	seen, changed atomic.Int64 // read while they are counted, for the progress
}

// Enter changes a directory. As an entry of another one it was only recognised: through its descriptor it is changed without
// a doubt what it is, and what is mounted there is out of reach.
func (c *changer) Enter(dir descent.Directory) {
	if call, err := c.descriptor(dir.FD); err != nil && !descent.Gone(err) {
		c.Fail(call, dir.Path(), err)
	}
}

// Visit changes an entry that is no directory.
func (c *changer) Visit(dir descent.Directory, e descent.Entry) bool {
	if e.Type == unix.DT_DIR {
		return true
	}
	call, err := "statx", e.Statx(dir.FD, statxMask, &c.st)
	if err == nil {
		if isDir(&c.st) { // the file system does not tell the type with the name, or it has just changed
			return true
		}
		if c.st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
			return false
		}
		c.seen.Add(1)
		call, err = c.entry(dir.FD, e)
	}
	if err != nil && !descent.Gone(err) {
		c.Fail(call, dir.Path()+"/"+e.Name(), err)
	}
	return false
}

// Fail keeps the first failure, which ends the walk.
func (c *changer) Fail(call, path string, err error) {
	if err == descent.ErrMoved {
		c.failure.moved.Store(true)
		return
	}
	c.failure.add(call, path, err)
}

// entry changes the entry that c.st is of, if it is not right. It returns the system call that failed.
func (c *changer) entry(dir int, e descent.Entry) (call string, err error) {
	st := &c.st
	if st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 && !c.target.right(st) {
		return c.exactly(dir, e)
	}
	if c.target.right(st) {
		return "", nil
	}
	mode := c.target.mode(st)
	if st.Gid != c.target.group {
		if err := e.Chgrp(dir, c.target.group); err != nil {
			return "fchownat", err
		}
	}
	if mode != modeOf(st) {
		switch err := e.Chmod(dir, mode); {
		case err == unix.ENOSYS, err == unix.EOPNOTSUPP: // the latter for a link, put there a moment ago, and maybe replaced again
			return c.exactly(dir, e)
		case err != nil:
			return "fchmodat2", err
		}
	}
	c.changed.Add(1)
	return "", nil
}

// exactly changes an entry through a descriptor. By its name it might be another file by now than the one whose mode is
// known: somebody could have put another one's file in the place of a setuid program of their own, to have it made one.
func (c *changer) exactly(dir int, e descent.Entry) (call string, err error) {
	fd, err := descent.Open(dir, e.Name(), unix.O_PATH)
	if err != nil {
		return "openat2", err
	}
	defer unix.Close(fd)
	c.seen.Add(-1) // counted already
	return c.descriptor(fd)
}

// descriptor changes what a descriptor is of, if it is not right. O_PATH is enough.
func (c *changer) descriptor(fd int) (call string, err error) {
	st := &c.st
	if err := statDescriptor(fd, st); err != nil {
		return "statx", err
	}
	c.seen.Add(1)
	if c.target.right(st) {
		return "", nil
	}
	mode := c.target.mode(st)
	if st.Gid != c.target.group {
		if err := chgrpDescriptor(fd, c.target.group); err != nil {
			return "fchownat", err
		}
	}
	lost := !isDir(st) && st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 // the kernel may have taken it with the group
	if mode != modeOf(st) || lost {
		if call, err := chmodDescriptor(fd, mode); err != nil {
			return call, err
		}
	}
	c.changed.Add(1)
	return "", nil
}
