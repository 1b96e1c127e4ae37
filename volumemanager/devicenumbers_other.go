// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package volumemanager

import (
	"errors"
	"os"
)

func deviceNumbers(string) (major, minor int64, mode os.FileMode, err error) {
	return 0, 0, 0, errors.ErrUnsupported
}
