// SPDX-License-Identifier: Apache-2.0

// Package mounttable tells what is mounted where without reading it all again each time, and when that changes.
package mounttable

import "sync"

// Mount is one mount. It is not changed once it has been handed out.
type Mount struct {
	// ID tells it from others, and Parent is the ID of the mount that it is mounted in. On Linux 6.8 or later they are those of
	// statmount(2), which are never used again, else those of /proc/self/mountinfo.
	ID, Parent uint64

	// Point is the mount point as it is seen from the root directory of the process.
	Point string

	// Root is the directory of the file system that is mounted.
	Root string

	// Type is that of the file system, and Device its device number, "major:minor".
	Type, Device string

	// Source is what was given as the source; empty on Linux from 6.8 to 6.13.
	Source string
}

// Table knows the mounts of the process's mount namespace. Its methods may be called concurrently.
type Table struct {
	mu     sync.Mutex
	reader reader
	mounts []*Mount
}

// New returns a Table, which is to be closed. Where there is no mount table, on systems other than Linux, it returns an error
// that matches [errors.ErrUnsupported].
func New() (*Table, error) {
	r, err := open()
	if err != nil {
		return nil, err
	}
	return &Table{reader: r}, nil
}

// Mounts returns the mounts that can be reached from the root directory of the process: each after the one that it is mounted
// in, unless one was moved, and of several at one mount point the uppermost last. The caller does not change the slice.
//
// It is a system call when nothing has changed. Otherwise Linux 6.8 and later are asked for the IDs of all mounts, but for the
// rest only of those that are new; if no ID is new or gone, which is so when a mount was moved or remounted, of all. So a
// mount that is moved between two calls in which others come or go keeps its old place in the table until the next move, as
// do those below a directory that is renamed, of which the kernel tells nobody. Where that matters, the path itself is to be
// asked, with package mountid.
func (t *Table) Mounts() ([]*Mount, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mounts, err := t.reader.read(t.mounts)
	if err != nil {
		return nil, err
	}
	t.mounts = mounts
	return mounts, nil
}

// Close frees what the Table holds. No method is called after it.
func (t *Table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reader.close()
}
