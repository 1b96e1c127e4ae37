// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/internal/provisioning"
	"github.com/volumekit/volumekit/volume"
)

// recordsDir is the directory, in each base path, that tells which volume each directory belongs to.
const recordsDir = ".volumekit-hostpath"

// maxPathBytes is PATH_MAX of Linux less its NUL byte.
const maxPathBytes = 4095

// location is the directory of a provisioned volume.
type location struct {
	base string
	// elements lead from base to the directory; at least one.
	elements []string
}

func (l location) path() string {
	return filepath.Join(l.base, filepath.Join(l.elements...))
}

// locate finds the base path that holds path, which must lie below one, as it is written. The error matches ErrInvalid.
func (p *Plugin) locate(path string) (location, error) {
	if err := provisioning.CheckPath("path", path); err != nil {
		return location{}, err
	}
	path = filepath.Clean(path)
	for _, base := range p.bases {
		if !provisioning.IsBelow(path, base) {
			continue
		}
		l := location{base: base, elements: strings.Split(strings.TrimPrefix(path[len(base):], "/"), "/")}
		switch {
		case l.elements[0] == recordsDir:
			return location{}, volume.Errorf(volume.ErrInvalid, "path %q: the name %s is reserved for the plugin's records", path, recordsDir)
		case len(path)+len("/"+recordsDir+"/volumes") > maxPathBytes:
			return location{}, volume.Errorf(volume.ErrInvalid, "path %.64q… has %d bytes, more than a path can have", path, len(path))
		}
		return l, nil
	}
	return location{}, volume.Errorf(volume.ErrInvalid, "path %q is not below a base path (%q)", path, p.bases)
}
