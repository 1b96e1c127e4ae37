// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"fmt"
	"slices"
	"strings"
)

// maxReported bounds the mount points and the failures that one error names.
const maxReported = 32

// MountedError says that something is mounted on what was to be removed, or beneath it. What is mounted was not touched,
// and what is around it was removed. It is for the caller to see to it that it is unmounted, and to call again.
type MountedError struct {
	Paths []string // the mount points, at most 32, beginning with the path that was given
	More  bool     // whether there are more of them than Paths names
}

func (e *MountedError) Error() string {
	return fmt.Sprintf("something is mounted on %s, and was left as it is: unmount it, then remove again",
		list(e.Paths, e.More))
}

func (e *MountedError) add(path string) {
	switch {
	case slices.Contains(e.Paths, path):
	case len(e.Paths) == maxReported:
		e.More = true
	default:
		e.Paths = append(e.Paths, path)
	}
}

// list quotes paths: what a container calls its files may hold newlines.
func list(paths []string, more bool) string {
	quoted := make([]string, len(paths))
	for i, p := range paths {
		quoted[i] = fmt.Sprintf("%q", p)
	}
	if more {
		quoted = append(quoted, "and more")
	}
	return strings.Join(quoted, ", ")
}

// failures collects why parts of a tree are still there.
type failures struct {
	errs []error
	more bool
}

func (f *failures) add(err error) {
	if len(f.errs) == maxReported {
		f.more = true
		return
	}
	f.errs = append(f.errs, err)
}

// join returns nil when there is nothing to report, the MountedError itself when that is all, and one error that wraps
// everything otherwise.
func (f *failures) join(root string, mounted *MountedError) error {
	errs := f.errs
	if len(mounted.Paths) > 0 {
		if len(errs) == 0 {
			return mounted
		}
		errs = append(slices.Clip(errs), mounted)
	}
	if len(errs) == 0 {
		return nil
	}
	return &incompleteError{root: root, errs: errs, more: f.more}
}

type incompleteError struct {
	root string
	errs []error
	more bool
}

func (e *incompleteError) Error() string {
	texts := make([]string, len(e.errs))
	for i, err := range e.errs {
		texts[i] = err.Error()
	}
	if e.more {
		texts = append(texts, "and more")
	}
	return fmt.Sprintf("cannot remove all of %q: %s", e.root, strings.Join(texts, "; "))
}

func (e *incompleteError) Unwrap() []error { return e.errs }

// pathError is a fs.PathError that quotes its path, of which it keeps no more than a reader wants to see.
func pathError(op, path string, err error) error {
	return fmt.Errorf("%s %q: %w", op, clip(path), err)
}

// clip shortens a path that no system call would accept; in a tree of any depth it may have megabytes.
func clip(path string) string {
	const limit, end = 4096, 1024 // PATH_MAX, and what is kept at either end
	if len(path) <= limit {
		return path
	}
	return path[:end] + "…" + path[len(path)-end:]
}
