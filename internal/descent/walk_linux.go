// SPDX-License-Identifier: Apache-2.0

package descent

import (
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// bufferSize is what one goroutine of a walk reads at once: about a thousand names.
	bufferSize = 32 << 10

	// shareSize is the size of what was read of one directory, in bytes, from which on it is handed to another goroutine:
	// about 200 names. Looking at one takes about a microsecond, starting a goroutine a few.
	shareSize = 6 << 10

	// shareDepth is the depth down to which work is handed over, since its path has to be built for that.
	shareDepth = 32
)

// Visitor is what a walk does. One Visitor belongs to one goroutine at a time.
type Visitor interface {
	// Enter is called at each directory that the walk has entered, before its entries are read. The directory that the walk
	// was begun in is left to the caller of Walk.
	Enter(Directory)

	// Visit is called for each entry but "." and "..", and says whether the walk goes into it. It must not where the entry is
	// known to be no directory; an entry that turns out to be none, or that is a mount point, is passed over.
	Visit(Directory, Entry) bool

	// Fail is called for what could not be read or entered, with the name of the system call. What has vanished is none of
	// it. After an [ErrMoved] the walk has left out what was around path.
	Fail(call, path string, err error)
}

// Directory is one that is open. It is valid until the function that it was given to returns.
type Directory struct {
	// FD is its descriptor, open for reading.
	FD int

	at    *Cursor
	depth int // of it, beneath where at was begun
}

// Path returns the path of the directory, for messages. It may be longer than any system call accepts.
func (d Directory) Path() string { return d.at.pathAt(d.depth) }

// Walk visits everything beneath the directory fd, which it closes, in no particular order but directories before what is in
// them. It runs in as many goroutines as there are visitors, and returns when they have ended. Whole directories, and parts
// of large ones, are handed to those that have nothing to do. The path is for messages only.
//
// The function ended is asked before each step, by several goroutines at once: from when it returns true nothing more is
// done.
//
// A goroutine holds up to [MaxHeld] descriptors. Memory is taken for the subdirectories that have been read and not yet been
// entered: those of one batch for each directory on the way to where a goroutine is, except that all subdirectories of a
// directory are kept that is more than [MaxHeld] levels above.
func Walk(fd int, path string, visitors []Visitor, ended func() bool) {
	w := &walk{ended: ended, idle: make(chan *worker, len(visitors))}
	for _, v := range visitors {
		w.idle <- &worker{visitor: v, buf: make([]byte, bufferSize)}
	}
	w.start(<-w.idle, fd, path, 0, (*branch).run)
	w.running.Wait()
}

// walk is one call of Walk.
type walk struct {
	ended   func() bool
	running sync.WaitGroup
	idle    chan *worker
}

// worker is what one goroutine works with.
type worker struct {
	visitor Visitor
	buf     []byte
}

// start runs a function on a branch of its own at the directory fd, which then belongs to the branch.
func (w *walk) start(with *worker, fd int, path string, depth int, run func(*branch)) {
	w.running.Go(func() {
		b := &branch{walk: w, worker: with, at: New(fd, path), depth: depth, levels: make([]progress, 1, 8)}
		run(b)
		b.at.Close()
		w.idle <- with
	})
}

// branch is the part of a walk that one goroutine does.
type branch struct {
	*walk
	*worker
	at     *Cursor
	depth  int        // beneath the path of the walk, of where at was begun
	levels []progress // one for each of at
}

// progress is how far one directory is, of those between the one that a branch was begun in and the current one.
type progress struct {
	dirs []string // the subdirectories that have been read and are still to be entered
	read bool     // to its end
}

func (b *branch) run() {
	for !b.ended() {
		depth := b.at.Depth()
		top := &b.levels[depth]
		switch {
		case len(top.dirs) > 0:
			name := top.dirs[0]
			top.dirs = top.dirs[1:]
			b.enter(name)
		case !top.read:
			b.read(depth)
		case depth == 0:
			return
		default:
			b.leave()
		}
	}
}

func (b *branch) enter(name string) {
	if b.shareDirectory(name) {
		return
	}
	if depth, ok := b.at.releases(); ok {
		// Once it is opened anew it would be read from its beginning.
		for !b.levels[depth].read && !b.ended() {
			b.read(depth)
		}
	}
	switch err := b.at.Enter(name); {
	case err == nil:
		b.levels = append(b.levels, progress{})
		b.visitor.Enter(b.directory(b.at.Depth()))
	case !Gone(err):
		b.visitor.Fail("openat2", b.at.Path()+"/"+name, err)
	}
}

func (b *branch) leave() {
	path := ""
	if b.at.levels[b.at.Depth()-1].fd < 0 {
		path = b.at.Path()
	}
	if err := b.at.Leave(); err != nil {
		b.visitor.Fail("openat2", path, err)
	}
	b.levels = b.levels[:b.at.Depth()+1]
}

// read visits the next entries of a directory between the one that the branch was begun in and the current one.
func (b *branch) read(depth int) {
	dir := b.directory(depth)
	n, err := getdents(dir.FD, b.buf)
	if err != nil {
		b.visitor.Fail("getdents64", dir.Path(), err)
	}
	if n == 0 {
		b.levels[depth].read = true
		return
	}
	if !b.shareBatch(dir, n) {
		b.visit(depth, b.buf[:n])
	}
}

// visit visits the entries that were read of a directory, and keeps what the walk is to go into.
func (b *branch) visit(depth int, batch []byte) {
	dir, l := b.directory(depth), &b.levels[depth]
	for len(batch) > 0 && !b.ended() {
		var e Entry
		e, batch = nextEntry(batch)
		if !e.isDots() && b.visitor.Visit(dir, e) {
			l.dirs = append(l.dirs, e.Name())
		}
	}
}

func (b *branch) directory(depth int) Directory {
	return Directory{FD: b.at.levels[depth].fd, at: b.at, depth: depth}
}

// shareBatch has another goroutine visit what was read of a directory, and walk what is beneath.
func (b *branch) shareBatch(dir Directory, n int) bool {
	depth := b.depth + dir.depth
	if n < shareSize || depth >= shareDepth || len(b.idle) == 0 {
		return false
	}
	fd, err := unix.FcntlInt(uintptr(dir.FD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return false
	}
	return b.share(fd, dir.Path(), depth, func(other *worker) func(*branch) {
		b.buf, other.buf = other.buf, b.buf
		return func(o *branch) {
			o.levels[0].read = true // the rest of it is not for this branch
			o.visit(0, o.buf[:n])
			o.run()
		}
	})
}

// shareDirectory has another goroutine walk a subdirectory of the current directory.
func (b *branch) shareDirectory(name string) bool {
	depth := b.depth + b.at.Depth()
	if depth >= shareDepth || len(b.idle) == 0 {
		return false
	}
	fd, err := Open(b.at.Dir(), name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	return b.share(fd, b.at.Path()+"/"+name, depth+1, func(*worker) func(*branch) {
		return func(o *branch) {
			o.visitor.Enter(o.directory(0))
			o.run()
		}
	})
}

// share starts what give returns, if there is somebody to do it.
func (b *branch) share(fd int, path string, depth int, give func(*worker) func(*branch)) bool {
	select {
	case other := <-b.idle:
		b.start(other, fd, path, depth, give(other))
		return true
	default:
		unix.Close(fd)
		return false
	}
}

// Gone says whether a walk finds an entry to be no longer what it was when it was read, or that something was mounted on it
// since: the error is one of a call that follows and crosses nothing, such as [Open] and those of [Entry].
func Gone(err error) bool {
	switch err {
	case unix.ENOENT, unix.ESTALE, unix.ENOTDIR, unix.ELOOP, unix.EXDEV:
		return true
	}
	return false
}
