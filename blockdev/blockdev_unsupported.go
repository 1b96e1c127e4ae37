// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package blockdev

import (
	"context"
	"errors"

	"k8s.io/utils/exec"

	"github.com/volumekit/volumekit/internal/loopdev"
	"github.com/volumekit/volumekit/volume"
)

// errOnlyLinux is what everything comes to elsewhere.
var errOnlyLinux = volume.Errorf(volume.ErrNotSupported, "local volumes are served on Linux only: %w", errors.ErrUnsupported)

func (p *Plugin) mount(context.Context, string, string, string, []string) error { return errOnlyLinux }

func (p *Plugin) showsPlace(context.Context, string, place) (bool, error) { return false, errOnlyLinux }

func isReadOnly(context.Context, string) (bool, error) { return false, errOnlyLinux }

func lockFile(context.Context, string) (unlock func(), err error) { return nil, errOnlyLinux }

func (p *Plugin) withDevice(context.Context, place, bool, func(string) error) error {
	return errOnlyLinux
}

func attached(context.Context, place, loopdev.Options) (*loopdev.Handle, error) {
	return nil, errOnlyLinux
}

func (i image) make(context.Context, exec.Interface, imageRecord) (*imageRecord, error) {
	return nil, errOnlyLinux
}

func (i image) delete(context.Context) error { return errOnlyLinux }

func (i image) grow(context.Context, int64) (int64, error) { return 0, errOnlyLinux }

func (p *Plugin) refresh(context.Context, place) error { return errOnlyLinux }
