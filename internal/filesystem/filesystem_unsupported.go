// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package filesystem

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"k8s.io/utils/exec"
)

// Probe is supported on Linux only: the error matches [errors.ErrUnsupported].
func Probe(_ context.Context, path string) (Content, error) { return Content{}, unsupported(path) }

// Size is supported on Linux only: the error matches [errors.ErrUnsupported].
func Size(path string) (int64, error) { return 0, unsupported(path) }

// Make is supported on Linux only: the error matches [errors.ErrUnsupported].
func Make(_ context.Context, _ exec.Interface, path string, _ MakeOptions) error {
	return unsupported(path)
}

// Check is supported on Linux only: the error matches [errors.ErrUnsupported].
func Check(_ context.Context, _ exec.Interface, path, _ string) (CheckResult, error) {
	return CheckResult{}, unsupported(path)
}

// Grow is supported on Linux only: the error matches [errors.ErrUnsupported].
func Grow(_ context.Context, _ exec.Interface, device, _, _ string) error { return unsupported(device) }

func unsupported(path string) error {
	return fmt.Errorf("file system on %s: %w on %s", path, errors.ErrUnsupported, runtime.GOOS)
}
