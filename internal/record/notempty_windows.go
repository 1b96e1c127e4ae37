// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"syscall"
)

const errorDirNotEmpty = syscall.Errno(145) // ERROR_DIR_NOT_EMPTY

// isNotEmpty reports whether err says that a directory has entries.
func isNotEmpty(err error) bool {
	return errors.Is(err, errorDirNotEmpty)
}
