// SPDX-License-Identifier: Apache-2.0

package syscallfault

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Call is a system call that has not been made yet.
type Call struct {
	// Name is the kernel's name of it, such as "mkdirat".
	Name string

	// Paths are the absolute paths that it is about, in the order of its arguments; descriptors count too. A call that
	// knows the file by no path has none.
	Paths []string

	// PID is the thread that makes it.
	PID int

	text string
}

// String shows the call with those of its arguments that say most, such as
//
//	mkdirat("/srv/pods/1")
//	write("/srv/pods/1/file", 17)
func (c Call) String() string { return c.text }

// describe reads what the arguments point to.
func (c *change) describe(thread int, args [6]uint64) Call {
	call := Call{Name: c.name, PID: thread}
	var shown []string
	path := func(path string) {
		call.Paths = append(call.Paths, path)
		shown = append(shown, fmt.Sprintf("%q", path))
	}
	base := "cwd"
	for i, kind := range c.args {
		arg := args[i]
		switch kind {
		case 'd':
			base = "cwd"
			if int32(arg) != unix.AT_FDCWD {
				base = fmt.Sprintf("fd/%d", int32(arg))
			}
		case 'p':
			name := readString(thread, arg)
			if !filepath.IsAbs(name) {
				name = filepath.Join(linkOf(thread, base), name)
			}
			base = "cwd"
			path(name)
		case 'f':
			path(linkOf(thread, fmt.Sprintf("fd/%d", int32(arg))))
		case 's':
			shown = append(shown, fmt.Sprintf("%q", readString(thread, arg)))
		case 'n':
			shown = append(shown, fmt.Sprint(int64(arg)))
		case 'o':
			shown = append(shown, fmt.Sprintf("%O", arg))
		case 'x':
			shown = append(shown, fmt.Sprintf("%#x", arg))
		}
	}
	call.text = fmt.Sprintf("%s(%s)", c.name, strings.Join(shown, ", "))
	return call
}

// counts reports whether the call changes something, as far as the filter cannot tell.
func (c *change) counts(thread int, args [6]uint64) bool {
	switch c.look {
	case writesFile:
		link := linkOf(thread, fmt.Sprintf("fd/%d", int32(args[0])))
		return filepath.IsAbs(link) && !strings.HasPrefix(link, "/dev/") // others are like "pipe:[17]"
	case opensToChange:
		flags := read(thread, args[2], 8) // the first field of struct open_how
		return len(flags) < 8 || leastFlags(flags)&changesFile != 0
	}
	return true
}

func leastFlags(b []byte) uint32 {
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

// linkOf reads a link of /proc. Unlike stat it does not ask the file system that the link leads to.
func linkOf(thread int, name string) string {
	link, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", thread, name))
	if err != nil {
		return "?"
	}
	return link
}

// readString reads a string that ends with a zero from the memory of the thread's process.
func readString(thread int, address uint64) string {
	var text []byte
	for address != 0 && len(text) < unix.PathMax {
		// To the end of the page at most: the next one need not be there.
		page := uint64(os.Getpagesize())
		part := read(thread, address, int(page-address%page))
		end := strings.IndexByte(string(part), 0)
		if end >= 0 {
			return string(append(text, part[:end]...))
		}
		if len(part) == 0 {
			break
		}
		text = append(text, part...)
		address += uint64(len(part))
	}
	return string(text)
}

// read reads from the memory of the thread's process; what cannot be read is missing.
func read(thread int, address uint64, size int) []byte {
	buffer := make([]byte, size)
	local := []unix.Iovec{{Base: &buffer[0]}}
	local[0].SetLen(size)
	n, err := unix.ProcessVMReadv(thread, local, []unix.RemoteIovec{{Base: uintptr(address), Len: size}}, 0)
	if err != nil {
		return nil
	}
	return buffer[:n]
}
