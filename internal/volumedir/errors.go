// SPDX-License-Identifier: Apache-2.0

package volumedir

import (
	"errors"
	"slices"
	"syscall"

	"github.com/volumekit/volumekit/internal/removal"
	"github.com/volumekit/volumekit/volume"
)

// Exhausted makes an error that says that there is no room for more match [volume.ErrExhausted]. A mount ends with ENOSPC
// too, when the namespace has as many as it may have.
func Exhausted(err error) error {
	for _, number := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.ENOMEM} {
		if errors.Is(err, number) {
			return volume.Errorf(volume.ErrExhausted, "%w", err)
		}
	}
	return err
}

// IsMountedOn reports whether an error of package removal says that path itself is a mount point.
func IsMountedOn(err error, path string) bool {
	var mounted *removal.MountedError
	return errors.As(err, &mounted) && slices.Contains(mounted.Paths, path)
}

// InUse makes an error of package removal about mounts match [volume.ErrInUse].
func InUse(err error) error {
	var mounted *removal.MountedError
	if errors.As(err, &mounted) {
		return volume.Errorf(volume.ErrInUse, "%w", err)
	}
	return err
}
