// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"fmt"
	"path/filepath"
	"strings"
)

// checkPath makes sure that no program takes the path for an option.
func checkPath(path string) error {
	if !filepath.IsAbs(path) {
		return &kindError{ErrInvalid, fmt.Errorf("the path %q is not absolute", path)}
	}
	if strings.ContainsRune(path, 0) {
		return &kindError{ErrInvalid, fmt.Errorf("the path %q holds a zero byte", path)}
	}
	return nil
}
