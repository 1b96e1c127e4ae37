// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"github.com/volumekit/volumekit/internal/descent"
	"golang.org/x/sys/unix"
)

// branch is the part of a walk that one goroutine does.
type branch struct {
	*walker
	at    *descent.Cursor
	depth int // beneath the path of the walk, of where at was begun
	buf   []byte
	total Usage
}

// walk measures what is beneath the given subdirectories of the current directory.
func (b *branch) walk(dirs []string) {
	pending := [][]string{dirs} // for each level of b.at, the subdirectories that are still to be walked
	for b.ctx.Err() == nil {
		last := len(pending) - 1
		if len(pending[last]) == 0 {
			if last == 0 {
				return
			}
			_ = b.at.Leave() // what was moved is left to where it is now
			pending = pending[:b.at.Depth()+1]
			continue
		}
		name := pending[last][0]
		pending[last] = pending[last][1:]
		if b.shareDirectory(name) {
			continue
		}
		if err := b.at.Enter(name); err == nil {
			pending = append(pending, b.list())
		} else if !gone(err) {
			b.fail("openat2", b.at.Path()+"/"+name, err)
		}
	}
}

// list counts the entries of the current directory and returns its subdirectories.
func (b *branch) list() []string {
	var dirs []string
	for b.ctx.Err() == nil {
		names, err := descent.ReadNames(b.at.Dir(), b.buf)
		if err != nil {
			b.fail("getdents", b.at.Path(), err)
		}
		if len(names) == 0 {
			break
		}
		if !b.shareNames(names) {
			dirs = b.count(names, dirs)
		}
	}
	return dirs
}

// count counts the named entries of the current directory, and appends those that are directories to dirs.
func (b *branch) count(names, dirs []string) []string {
	var st unix.Statx_t
	for _, name := range names {
		if b.ctx.Err() != nil {
			return nil
		}
		if err := statx(b.at.Dir(), name, &st); err != nil {
			if !gone(err) {
				b.walker.fail("statx", b.at.Path()+"/"+name, err)
			}
			continue
		}
		isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
		if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 || !isDir && st.Nlink > 1 && b.counted(&st) {
			continue
		}
		b.total.Bytes += int64(st.Blocks) * blockSize
		b.total.Inodes++
		if isDir {
			dirs = append(dirs, name)
		}
	}
	return dirs
}

// shareNames has another goroutine count the named entries of the current directory and walk what is beneath them.
func (b *branch) shareNames(names []string) bool {
	if len(names) < shareNames || b.deep() || len(b.buffers) == 0 {
		return false
	}
	fd, err := unix.FcntlInt(uintptr(b.at.Dir()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return false
	}
	run := func(other *branch) { other.walk(other.count(names, nil)) }
	if b.share(run, fd, b.at.Path(), b.depth+b.at.Depth()) {
		return true
	}
	unix.Close(fd)
	return false
}

// shareDirectory has another goroutine walk a subdirectory of the current directory.
func (b *branch) shareDirectory(name string) bool {
	if b.deep() || len(b.buffers) == 0 {
		return false
	}
	fd, err := descent.Open(b.at.Dir(), name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	run := func(other *branch) { other.walk(other.list()) }
	if b.share(run, fd, b.at.Path()+"/"+name, b.depth+b.at.Depth()+1) {
		return true
	}
	unix.Close(fd)
	return false
}

func (b *branch) deep() bool { return b.depth+b.at.Depth() >= shareDepth }

// gone says whether an entry cannot be counted because it is no longer what it was when it was listed, or because
// something was mounted on it since.
func gone(err error) bool {
	switch err {
	case unix.ENOENT, unix.ESTALE, unix.ENOTDIR, unix.ELOOP, unix.EXDEV:
		return true
	}
	return false
}
