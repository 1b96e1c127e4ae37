// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// startedInNamespace tells whether exec has started this process to become the command. It never does here.
func startedInNamespace([]string) bool { return false }

func becomeCommand() int { return notServed }

func runInView(_ context.Context, seen view, _ streams) error {
	return fmt.Errorf("show the mounts of %s: only Linux has mount namespaces, not %s: %w", seen.Container, runtime.GOOS, errors.ErrUnsupported)
}
