// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package projectquota

import (
	"errors"
	"fmt"
	"runtime"
)

// Supported returns an error that matches [errors.ErrUnsupported]: project quotas are used on Linux only.
func Supported(dir string) error { return unsupported(dir) }

// ID is supported on Linux only: the error matches [errors.ErrUnsupported].
func ID(dir string) (uint32, error) { return 0, unsupported(dir) }

// UsageOf is supported on Linux only: the error matches [errors.ErrUnsupported].
func UsageOf(dir string, _ uint32) (Usage, error) { return Usage{}, unsupported(dir) }

// Limit is supported on Linux only: the error matches [errors.ErrUnsupported].
func Limit(dir string, _ uint32, _, _ uint64) error { return unsupported(dir) }

// Set is supported on Linux only: the error matches [errors.ErrUnsupported].
func Set(dir string, _ uint32, _, _ uint64) error { return unsupported(dir) }

// Clear is supported on Linux only: the error matches [errors.ErrUnsupported].
func Clear(dir string, _ uint32) error { return unsupported(dir) }

// Leave is supported on Linux only: the error matches [errors.ErrUnsupported].
func Leave(dir string, _ uint32) error { return unsupported(dir) }

// FreeID is supported on Linux only: the error matches [errors.ErrUnsupported].
func FreeID(dir string) (uint32, error) { return 0, unsupported(dir) }

func unsupported(dir string) error {
	return fmt.Errorf("project quota of %s: %w on %s", dir, errors.ErrUnsupported, runtime.GOOS)
}
