// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/volume"
)

// CheckPath refuses what Kubernetes does, which is an empty path and one with "..", and what has no meaning on a host. what says
// what has the path.
func CheckPath(what, path string) error {
	switch {
	case path == "":
		return volume.Errorf(volume.ErrInvalid, "%s is empty", what)
	case strings.ContainsRune(path, 0):
		return volume.Errorf(volume.ErrInvalid, "%s %q holds a NUL byte", what, path)
	case !filepath.IsAbs(path):
		return volume.Errorf(volume.ErrInvalid, "%s %q is not absolute", what, path)
	case strings.Contains(path, "..") && slices.Contains(strings.Split(filepath.ToSlash(path), "/"), ".."):
		return volume.Errorf(volume.ErrInvalid, `%s %q has a ".." element`, what, path)
	}
	return nil
}

// CleanBases checks the base paths of a plugin's options.
func CleanBases(given []string) ([]string, error) {
	var bases []string
	for i, base := range given {
		if err := CheckPath(fmt.Sprintf("BasePaths[%d]", i), base); err != nil {
			return nil, err
		}
		base = filepath.Clean(base)
		for _, other := range bases {
			if base == other || IsBelow(base, other) || IsBelow(other, base) {
				return nil, volume.Errorf(volume.ErrInvalid, "BasePaths: %q and %q overlap", other, base)
			}
		}
		bases = append(bases, base)
	}
	return bases, nil
}

// IsBelow reports whether a cleaned path is below another one, by their elements.
func IsBelow(path, above string) bool {
	separator := string(filepath.Separator)
	return path != above && strings.HasPrefix(path, strings.TrimSuffix(above, separator)+separator)
}
