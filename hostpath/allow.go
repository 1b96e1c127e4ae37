// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/internal/provisioning"
	"github.com/volumekit/volumekit/volume"
)

// AllowedPath is a place of the host that hostPath volumes may lead to.
type AllowedPath struct {
	// Prefix is an absolute path: it and everything below it is allowed ("/data" allows /data and /data/x, not
	// /data-evil). It need not exist, and may be a symbolic link, which is resolved each time that a volume is checked.
	// The directories that lead to it are trusted. "/" allows everything, and still has links resolved.
	Prefix string

	// ReadOnly allows only reading: the volume's attributes then have ReadOnly set. Where several entries allow a path, one
	// without ReadOnly decides.
	ReadOnly bool
}

// allowList is what Options.AllowedPaths says. Nil allows everything.
type allowList []AllowedPath

func newAllowList(allowed []AllowedPath) (allowList, error) {
	if allowed == nil {
		return nil, nil
	}
	list := make(allowList, len(allowed))
	for i, a := range allowed {
		if err := provisioning.CheckPath(fmt.Sprintf("AllowedPaths[%d].Prefix", i), a.Prefix); err != nil {
			return nil, err
		}
		list[i] = AllowedPath{Prefix: filepath.Clean(a.Prefix), ReadOnly: a.ReadOnly}
	}
	return list, nil
}

func (l allowList) anyReadOnly() bool {
	for _, a := range l {
		if a.ReadOnly {
			return true
		}
	}
	return false
}

// admit reports whether a path that has no symbolic links is allowed for reading only, or refuses it.
func (l allowList) admit(path string) (readOnly bool, err error) {
	// A prefix above a path without links has none itself. Only if no such prefix decides are the others resolved: they
	// may be on a server that is down, which should not concern this path.
	admitted, readOnly := l.match(path, func(prefix string) string { return prefix })
	if admitted && !readOnly {
		return false, nil
	}
	alsoAdmitted, alsoReadOnly := l.match(path, func(prefix string) string {
		where, err := resolve(prefix)
		if err != nil {
			return "" // allows nothing
		}
		return where.path
	})
	switch {
	case alsoAdmitted:
		return alsoReadOnly, nil
	case admitted:
		return readOnly, nil
	}
	return false, volume.Errorf(volume.ErrInvalid, "it leads to %q, which is not below an allowed path (%s)", path, l)
}

// match applies the prefixes, each as the function gives it; an empty one is left out.
func (l allowList) match(path string, resolved func(string) string) (admitted, readOnly bool) {
	for _, a := range l {
		prefix := resolved(a.Prefix)
		if prefix == "" || !provisioning.IsBelow(path, prefix) && path != prefix {
			continue
		}
		admitted, readOnly = true, a.ReadOnly
		if !readOnly {
			break
		}
	}
	return admitted, readOnly
}

// String lists the prefixes.
func (l allowList) String() string {
	if len(l) == 0 {
		return "none is allowed"
	}
	prefixes := make([]string, len(l))
	for i, a := range l {
		prefixes[i] = fmt.Sprintf("%q", a.Prefix)
	}
	return strings.Join(prefixes, ", ")
}
