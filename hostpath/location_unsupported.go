// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package hostpath

import (
	"context"

	"github.com/volumekit/volumekit/volume"
)

func (l location) make(string, parameters) (location, error) { return location{}, errNotLinux(l) }

func (l location) remove(context.Context, string, func() error) error { return errNotLinux(l) }

// errNotLinux is about what needs openat2(2).
func errNotLinux(l location) error {
	return volume.Errorf(volume.ErrNotSupported, "directory %q: provisioning and deleting work on Linux only", l.path())
}
