// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package hardlimit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// Apply is supported on Linux only: the error matches [errors.ErrUnsupported].
func Apply(_ context.Context, dir string, _ Options) (Kind, error) { return None, unsupported(dir) }

// Find finds no limit, as there are none on this system.
func Find(context.Context, string, string) (Limit, error) { return Limit{}, nil }

// Mounted is false, as there are no images on this system.
func Mounted(context.Context, string, string) (bool, error) { return false, nil }

// Grow is supported on Linux only: the error matches [errors.ErrUnsupported].
func Grow(_ context.Context, dir string, _ Options) error { return unsupported(dir) }

// UsageOf is supported on Linux only: the error matches [errors.ErrUnsupported].
func UsageOf(_ context.Context, dir, _ string) (Usage, error) { return Usage{}, unsupported(dir) }

// Remove does nothing, as there are no limits on this system.
func Remove(context.Context, string, Options) error { return nil }

// Lift does nothing, as there are no limits on this system.
func Lift(context.Context, string) error { return nil }

func unsupported(dir string) error {
	return fmt.Errorf("limit %s: %w on %s", dir, errors.ErrUnsupported, runtime.GOOS)
}
