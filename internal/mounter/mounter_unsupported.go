// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package mounter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/mount-utils"

	"github.com/volumekit/volumekit/internal/unmounting"
)

var errNotLinux = fmt.Errorf("mounting works on Linux only: %w", errors.ErrUnsupported)

func (m *Mounter) mount(_, target, _ string, _, _ []string) error {
	return &os.PathError{Op: "mount on", Path: target, Err: errNotLinux}
}

// Unmount returns an error that matches [errors.ErrUnsupported].
func (m *Mounter) Unmount(target string) error {
	return &os.PathError{Op: "unmount", Path: target, Err: errNotLinux}
}

// UnmountWithForce returns an error that matches [errors.ErrUnsupported].
func (m *Mounter) UnmountWithForce(target string, _ time.Duration) error { return m.Unmount(target) }

// UnmountInSteps returns an error that matches [errors.ErrUnsupported].
func (m *Mounter) UnmountInSteps(_ context.Context, target string) (unmounting.Step, error) {
	return unmounting.Plain, m.Unmount(target)
}

// IsMountPoint returns an error that matches [errors.ErrUnsupported].
func (m *Mounter) IsMountPoint(file string) (bool, error) {
	return false, &os.PathError{Op: "find out whether it is a mount point:", Path: file, Err: errNotLinux}
}

// IsLikelyNotMountPoint returns true and an error that matches [errors.ErrUnsupported].
func (m *Mounter) IsLikelyNotMountPoint(file string) (bool, error) {
	_, err := m.IsMountPoint(file)
	return true, err
}

// List returns an error that matches [errors.ErrUnsupported].
func (m *Mounter) List() ([]mount.MountPoint, error) { return nil, errNotLinux }

// GetMountRefs returns an error that matches [errors.ErrUnsupported].
func (m *Mounter) GetMountRefs(pathname string) ([]string, error) {
	return nil, &os.PathError{Op: "find the other mounts of", Path: pathname, Err: errNotLinux}
}
