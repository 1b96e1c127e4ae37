// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// archive writes an initial file system for the kernel, in the "newc" format of its documentation
// (driver-api/early-userspace/buffer-format). Several, one behind the other, make one file system.
type archive struct {
	out   *bufio.Writer
	at    int64
	inode int
	dirs  map[string]bool // those that have been written
}

func newArchive(out io.Writer) *archive {
	return &archive{out: bufio.NewWriterSize(out, 1<<20), dirs: map[string]bool{".": true}}
}

// The types of a file in mode.
const (
	typeDir    = 0o040000
	typeFile   = 0o100000
	typeLink   = 0o120000
	typeDevice = 0o020000
)

// file adds a file with its content, and the directories that lead to it.
func (a *archive) file(name string, mode uint32, size int64, content io.Reader) error {
	a.parents(name)
	a.header(name, typeFile|mode, size, 0, 0)
	n, err := io.Copy(a.out, content)
	if err == nil && n != size {
		err = fmt.Errorf("%s has %d bytes instead of %d", name, n, size)
	}
	a.at += n
	a.pad(4)
	return err
}

// copy adds a file of this machine.
func (a *archive) copy(name, from string) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return a.file(name, uint32(info.Mode().Perm()), info.Size(), file)
}

func (a *archive) dir(name string, mode uint32) {
	if a.dirs[name] {
		return
	}
	a.parents(name)
	a.dirs[name] = true
	a.header(name, typeDir|mode, 0, 0, 0)
}

func (a *archive) parents(name string) {
	if parent := path.Dir(name); !a.dirs[parent] {
		a.dir(parent, 0o755)
	}
}

func (a *archive) link(name, target string) {
	a.parents(name)
	a.header(name, typeLink|0o777, int64(len(target)), 0, 0)
	a.write(target)
	a.pad(4)
}

// device adds a character device.
func (a *archive) device(name string, mode uint32, major, minor int) {
	a.parents(name)
	a.header(name, typeDevice|mode, 0, major, minor)
}

// close ends the archive. What could not be written is reported here.
func (a *archive) close() error {
	a.header("TRAILER!!!", 0, 0, 0, 0)
	a.pad(512)
	return a.out.Flush()
}

func (a *archive) header(name string, mode uint32, size int64, major, minor int) {
	a.inode++
	a.write(fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		a.inode, mode, 0, 0, 1, 0, size, 0, 0, major, minor, len(name)+1, 0))
	a.write(name + "\x00")
	a.pad(4)
}

func (a *archive) write(s string) {
	_, _ = a.out.WriteString(s) // a bufio.Writer keeps its error
	a.at += int64(len(s))
}

func (a *archive) pad(unit int64) {
	if rest := a.at % unit; rest != 0 {
		a.write(strings.Repeat("\x00", int(unit-rest)))
	}
}

// tree adds what is in a folder into which packages were unpacked. They may still have the top folders that systems of today
// have as links into usr.
func (a *archive) tree(root string, leaveOut func(name string) bool) error {
	return filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || file == root {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(file, root+string(filepath.Separator)))
		if leaveOut(name) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		for _, top := range topLinks {
			if name == top {
				return nil
			}
			if strings.HasPrefix(name, top+"/") {
				name = "usr/" + name
			}
		}
		switch entry.Type() {
		case fs.ModeDir:
			a.dir(name, 0o755)
			return nil
		case fs.ModeSymlink:
			target, err := os.Readlink(file)
			if err != nil {
				return err
			}
			a.link(name, target)
			return nil
		case 0:
			return a.copy(name, file)
		}
		return nil
	})
}

// topLinks are links into usr.
var topLinks = []string{"bin", "lib", "lib32", "lib64", "libx32", "sbin"}
