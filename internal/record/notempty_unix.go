// SPDX-License-Identifier: Apache-2.0

//go:build unix

package record

import (
	"errors"
	"syscall"
)

// isNotEmpty reports whether err says that a directory has entries. POSIX allows both errors.
func isNotEmpty(err error) bool {
	return errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST)
}
