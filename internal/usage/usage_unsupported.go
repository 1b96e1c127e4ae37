// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package usage

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// Walk is supported on Linux only: the error wraps errors.ErrUnsupported.
func Walk(_ context.Context, path string) (Usage, error) {
	return Usage{}, unsupported("usage", path)
}

// Statfs is supported on Linux only: the error wraps errors.ErrUnsupported.
func Statfs(_ context.Context, path string) (Stat, error) {
	return Stat{}, unsupported("file system", path)
}

func unsupported(what, path string) error {
	return fmt.Errorf("%s of %q: %w on %s", what, path, errors.ErrUnsupported, runtime.GOOS)
}
