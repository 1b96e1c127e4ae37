// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package devicemount

import (
	"context"
	"errors"
	"io/fs"

	"k8s.io/mount-utils"

	"github.com/volumekit/volumekit/volume"
)

// IdentityOf is supported on Linux only.
func IdentityOf(fs.FileInfo) string { return "" }

func bootID() string { return "" }

func (d Device) staysBusy(context.Context, mount.Interface) (bool, error) {
	return false, volume.Errorf(volume.ErrNotSupported, "devices are mounted on Linux only: %w", errors.ErrUnsupported)
}
