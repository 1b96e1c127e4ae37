// SPDX-License-Identifier: Apache-2.0

package atomicwriter

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// File is what a file holds, and who may use it.
type File struct {
	// Data is the content.
	Data string

	// Mode are the permissions.
	Mode fs.FileMode

	// User and Group own the file; nil leaves them to the system.
	User, Group *int64
}

// Payload are the files of a directory by their paths, whose elements are parted by slashes.
type Payload map[string]File

// Directories say who may use the directories that files are in.
type Directories struct {
	// Mode are the permissions, to which setgid may belong.
	Mode fs.FileMode

	// Group owns them; nil leaves it to the system.
	Group *int64
}

// ErrPath is about a path that a file cannot have.
var ErrPath = errors.New("unusable path")

const (
	maxPathBytes = 4095
	maxNameBytes = 255
)

// CheckPath reports why a file cannot have the path: it is empty, absolute, not the shortest way to write it, too long, has ".." as
// an element, or begins with "..", as only what this package makes for itself does. The error wraps [ErrPath].
func CheckPath(path string) error {
	refuse := func(why string) error { return fmt.Errorf("%w %.256q: it %s", ErrPath, path, why) }
	switch {
	case path == "":
		return refuse("is empty")
	case strings.HasPrefix(path, "/"):
		return refuse("is absolute")
	case strings.HasPrefix(path, ".."):
		return refuse(`begins with ".."`)
	case len(path) > maxPathBytes:
		return refuse(fmt.Sprintf("has %d bytes, more than %d", len(path), maxPathBytes))
	}
	for element := range strings.SplitSeq(path, "/") {
		switch {
		case element == "" || element == ".":
			return refuse("has an element that leads nowhere")
		case element == "..":
			return refuse(`has ".." as an element`)
		case len(element) > maxNameBytes:
			return refuse(fmt.Sprintf("has an element of more than %d bytes", maxNameBytes))
		case strings.ContainsRune(element, 0):
			return refuse("holds a NUL")
		}
	}
	return nil
}

// Check reports a path that cannot be, or that is a file and a directory at once. The error wraps [ErrPath]. [Write] checks it too.
func (p Payload) Check() error {
	for path := range p {
		if err := CheckPath(path); err != nil {
			return err
		}
		for i, r := range path {
			if r == '/' {
				if _, isFile := p[path[:i]]; isFile {
					return fmt.Errorf("%w %.256q: %.256q is a file", ErrPath, path, path[:i])
				}
			}
		}
	}
	return nil
}

// firstElements lists the names that stand in the directory itself, in their order.
func (p Payload) firstElements() []string {
	names := make(map[string]struct{}, len(p))
	for path := range p {
		name, _, _ := strings.Cut(path, "/")
		names[name] = struct{}{}
	}
	return slices.Sorted(maps.Keys(names))
}

// Equal reports whether two payloads are the same.
func (p Payload) Equal(other Payload) bool {
	return maps.EqualFunc(p, other, File.equal)
}

func (f File) equal(other File) bool {
	return f.Mode == other.Mode && equalID(f.User, other.User) && equalID(f.Group, other.Group) && f.Data == other.Data
}

func equalID(a, b *int64) bool {
	return a == b || a != nil && b != nil && *a == *b
}
