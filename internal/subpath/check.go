// SPDX-License-Identifier: Apache-2.0

package subpath

import (
	"path"
	"slices"
	"strings"
)

// The limits of Linux: PATH_MAX, its closing NUL left out, and NAME_MAX.
const (
	maxPath = 4095
	maxName = 255
)

// Check reports why p cannot be a subPath, whatever the volume holds. As in Kubernetes, "" is no subPath, "." is the volume
// itself, and any element ".." is refused, wherever it would lead. The error matches [ErrInvalid], and does not show p,
// which may have been rendered from what must not be shown.
func Check(p string) error {
	switch {
	case p == "":
		return refuse(ErrInvalid, "it is empty")
	case len(p) > maxPath:
		return refuse(ErrInvalid, "it has %d bytes, more than the %d that a path can have", len(p), maxPath)
	case strings.HasPrefix(p, "/"):
		return refuse(ErrInvalid, "it is absolute, but has to begin at the volume's root")
	case strings.ContainsRune(p, 0):
		return refuse(ErrInvalid, "it holds a NUL")
	}
	for name := range strings.SplitSeq(p, "/") {
		switch {
		case name == "..":
			return refuse(ErrInvalid, `it holds ".."`)
		case len(name) > maxName:
			return refuse(ErrInvalid, "it holds a name of %d bytes, more than the %d that a file name can have", len(name), maxName)
		}
	}
	return nil
}

// elements returns the names that a path is made of, without what stands for nothing.
func elements(p string) []string {
	return slices.DeleteFunc(strings.Split(p, "/"), func(name string) bool { return name == "" || name == "." })
}

// join is the path of names beneath a root; "." for the root itself.
func join(names []string) string {
	if len(names) == 0 {
		return "."
	}
	return path.Join(names...)
}
