// SPDX-License-Identifier: Apache-2.0

//go:build unix

package atomicwriter

import (
	"os"

	"golang.org/x/sys/unix"
)

// linker gives files of the current directory a name in a new one too, instead of having them written again.
type linker struct {
	from, to *os.File // nil if there is no current directory
}

func newLinker(root *os.Root, name string) *linker {
	l := &linker{}
	current, err := root.Readlink(dataName)
	if err != nil || !isOurs(current) {
		return l
	}
	from, err := root.Open(current)
	if err != nil {
		return l
	}
	if l.to, err = root.Open(name); err != nil {
		_ = from.Close()
		return l
	}
	l.from = from
	return l
}

// link reports whether it could be done. The file's directory is there.
func (l *linker) link(path string) bool {
	return l.from != nil && unix.Linkat(int(l.from.Fd()), path, int(l.to.Fd()), path, 0) == nil
}

func (l *linker) close() {
	if l.from != nil {
		_ = l.from.Close()
		_ = l.to.Close()
	}
}
