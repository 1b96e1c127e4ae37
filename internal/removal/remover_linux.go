// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/internal/descent"
	"golang.org/x/sys/unix"
)

// maxPasses bounds how often one directory is read again because its content changed while it was being removed. A
// file system that leaves entries out when others are removed between two reads needs a few passes; only somebody who
// keeps adding entries makes it many.
const maxPasses = 100

// errKeepsChanging is for a directory in which others add or exchange entries as fast as they are removed.
var errKeepsChanging = errors.New("its content keeps changing: stop what writes to it, then remove again")

// remover empties the directory that its cursor was begun in, depth first.
type remover struct {
	root    string
	only    string // when set, the first directory is not read, and nothing but this name is removed from it
	at      *descent.Cursor
	levels  []level // one for each level of at
	buf     []byte
	mounted MountedError
	failed  failures
}

// level is what is known of one directory between the top and the current one.
type level struct {
	names     []string            // read, and not yet dealt with
	kept      map[string]struct{} // what stays, and is not tried again
	stays     bool                // something stays: the directory will not become empty
	removed   bool                // in this pass, something was removed
	unsettled string              // in this pass, a name that turned into something else, or was filled again
	passes    int
	opened    bool // its permissions were added to
}

func newRemover(root string, at *descent.Cursor) *remover {
	return &remover{root: root, at: at, levels: make([]level, 1, 8), buf: make([]byte, 16<<10)}
}

func (r *remover) top() *level { return &r.levels[len(r.levels)-1] }

func (r *remover) run(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("removal of %q ended early: %w", r.root, err)
		}
		l := r.top()
		if len(l.names) == 0 && !r.read() {
			if r.again() {
				continue
			}
			if len(r.levels) == 1 {
				return r.failed.join(r.root, &r.mounted)
			}
			r.leave()
			continue
		}
		name := l.names[0]
		l.names = l.names[1:]
		if _, kept := l.kept[name]; !kept {
			r.remove(name)
		}
	}
}

// read gets the next names of the current directory. It returns false when there are none.
func (r *remover) read() bool {
	l := r.top()
	if r.only != "" && len(r.levels) == 1 {
		return false
	}
	names, err := descent.ReadNames(r.at.Dir(), r.buf)
	if err != nil {
		l.stays = true
		r.fail("getdents", r.at.Path(), err)
	}
	l.names = names
	return len(names) > 0
}

// again decides at the end of a directory whether to go through it once more, and goes back to its beginning if so.
func (r *remover) again() bool {
	l := r.top()
	first := len(r.levels) == 1
	// No rmdir will tell whether this directory is empty now, so see for ourselves.
	unseen := l.removed && (l.stays || first) && r.only == ""
	if l.unsettled == "" && !unseen {
		return false
	}
	if l.passes++; l.passes > maxPasses {
		l.stays = true
		r.fail("remove", strings.TrimSuffix(r.pathOf(l.unsettled), "/"), errKeepsChanging)
		return false
	}
	l.removed, l.unsettled = false, ""
	if r.only != "" && first {
		l.names = []string{r.only}
		return true
	}
	if err := descent.Rewind(r.at.Dir()); err != nil {
		l.stays = true
		r.fail("lseek", r.at.Path(), err)
		return false
	}
	return true
}

// remove removes an entry of the current directory, or enters it if it is a directory with something in it.
//
// It asks for no type before: unlinkat tells at no cost, and cannot be deceived by an exchange in between.
func (r *remover) remove(name string) {
	err := r.unlink(name, 0)
	switch err {
	case nil, unix.ENOENT:
		r.top().removed = true
		return
	case unix.EBUSY:
		r.busy(name)
		return
	case unix.EISDIR, unix.EPERM, unix.EACCES: // the latter two are also said of directories, and hide that they are
	default:
		r.keep(name, err)
		return
	}
	switch dirErr := r.unlink(name, unix.AT_REMOVEDIR); dirErr {
	case nil, unix.ENOENT:
		r.top().removed = true
	case unix.EBUSY:
		r.busy(name)
	case unix.ENOTEMPTY, unix.EEXIST, unix.EPERM, unix.EACCES:
		r.enter(name, dirErr)
	case unix.ENOTDIR:
		if err == unix.EISDIR {
			r.top().unsettled = name
		} else {
			r.keep(name, err)
		}
	default:
		r.keep(name, dirErr)
	}
}

// enter goes into a directory of the current one. Why says what unlinkat had against removing it; it stands if the
// entry turns out to be no directory.
func (r *remover) enter(name string, why error) {
	err := r.at.Enter(name)
	if err == unix.EACCES && r.allowDirectory(name) {
		err = r.at.Enter(name)
	}
	switch err {
	case nil:
		r.levels = append(r.levels, level{})
	case unix.ENOENT:
		r.top().removed = true
	case unix.EXDEV:
		r.mount(name)
	case unix.ENOTDIR, unix.ELOOP:
		if why == unix.EPERM || why == unix.EACCES {
			r.keep(name, why)
		} else {
			r.top().unsettled = name
		}
	default:
		r.fail("openat2", r.pathOf(name), err)
		r.stay(name)
	}
}

// leave goes up from a directory that was gone through, and removes it.
func (r *remover) leave() {
	name, stays := r.at.Name(), r.top().stays
	err := r.at.Leave()
	r.levels = r.levels[:r.at.Depth()+1]
	switch {
	case err != nil: // somebody moved it: begin anew from where we are
		r.top().unsettled = name
		return
	case stays:
		r.stay(name)
		return
	}
	switch err := r.unlink(name, unix.AT_REMOVEDIR); err {
	case nil, unix.ENOENT:
		r.top().removed = true
	case unix.ENOTEMPTY, unix.EEXIST, unix.ENOTDIR:
		r.top().unsettled = name
	case unix.EBUSY:
		r.busy(name)
	default:
		r.keep(name, err)
	}
}

// unlink removes a name from the current directory. If the directory does not let us, it is made to, once.
func (r *remover) unlink(name string, flags int) error {
	err := unlink(r.at.Dir(), name, flags)
	if err == unix.EACCES && len(r.levels) > 1 && !r.top().opened {
		r.top().opened = true
		if allow(r.at.Dir()) {
			err = unlink(r.at.Dir(), name, flags)
		}
	}
	return err
}

// busy finds out whether an entry that cannot be removed is a mount point. Some file systems say EBUSY for reasons of
// their own.
func (r *remover) busy(name string) {
	fd, err := descent.Open(r.at.Dir(), name, unix.O_PATH)
	switch err {
	case nil:
		unix.Close(fd)
		r.keep(name, unix.EBUSY)
	case unix.EXDEV:
		r.mount(name)
	case unix.ENOENT:
		r.top().removed = true
	default:
		r.keep(name, unix.EBUSY)
	}
}

func (r *remover) mount(name string) {
	r.mounted.add(clip(r.pathOf(name)))
	r.stay(name)
}

func (r *remover) keep(name string, err error) {
	r.fail("unlinkat", r.pathOf(name), err)
	r.stay(name)
}

// stay marks an entry of the current directory as one that cannot be removed.
func (r *remover) stay(name string) {
	l := r.top()
	if l.kept == nil {
		l.kept = make(map[string]struct{})
	}
	l.kept[name] = struct{}{}
	l.stays = true
}

func (r *remover) fail(op, path string, err error) { r.failed.add(pathError(op, path, err)) }

func (r *remover) pathOf(name string) string { return r.at.Path() + "/" + name }
