// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package subpath

import (
	"context"
	"errors"
	"fmt"
	"os"
)

var errNotLinux = fmt.Errorf("a subPath can be mounted on Linux only: %w", errors.ErrUnsupported)

// Open returns an error that matches [errors.ErrUnsupported], or what [Check] says.
func Open(_ context.Context, _, subPath string) (*os.File, error) {
	if err := Check(subPath); err != nil {
		return nil, fmt.Errorf("open subPath %.256q: %w", subPath, err)
	}
	return nil, errNotLinux
}

// Bind returns an error that matches [errors.ErrUnsupported], or what [Check] says.
func Bind(_ context.Context, _, subPath, _ string) error {
	if err := Check(subPath); err != nil {
		return fmt.Errorf("show subPath %.256q: %w", subPath, err)
	}
	return errNotLinux
}

// Clean removes nothing: nothing was made. It returns nil if dir does not exist.
func Clean(_ context.Context, dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return errNotLinux
}

// CleanVolume is like [Clean].
func CleanVolume(ctx context.Context, dir string) error { return Clean(ctx, dir) }
