// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package ownership

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// Apply is supported on Linux only: the error wraps errors.ErrUnsupported.
func Apply(_ context.Context, path string, _ Options) (Result, error) {
	return Result{}, fmt.Errorf("ownership of %q: %w on %s", path, errors.ErrUnsupported, runtime.GOOS)
}
