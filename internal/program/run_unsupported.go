// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package program

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"k8s.io/utils/exec"
)

// Run is supported on Linux only: the error matches [errors.ErrUnsupported].
func Run(ctx context.Context, x exec.Interface, name string, args ...string) ([]byte, error) {
	return Command{Exec: x, Name: name, Args: args}.Run(ctx)
}

// Run is supported on Linux only: the error matches [errors.ErrUnsupported].
func (c Command) Run(context.Context) ([]byte, error) {
	return nil, fmt.Errorf("run %s: %w on %s", c.Name, errors.ErrUnsupported, runtime.GOOS)
}
