// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package loopdev

import (
	"context"
	"errors"
)

// Handle is a loop device that is held open.
type Handle struct{ Device }

// Close does nothing.
func (h *Handle) Close() error { return nil }

// FileIDOf returns [errors.ErrUnsupported].
func FileIDOf(string) (FileID, error) { return FileID{}, errors.ErrUnsupported }

// Attach returns [errors.ErrUnsupported].
func Attach(context.Context, string, Options) (*Handle, error) { return nil, errors.ErrUnsupported }

// Open returns [errors.ErrUnsupported].
func Open(string) (*Handle, error) { return nil, errors.ErrUnsupported }

// Find returns [errors.ErrUnsupported].
func Find(context.Context, FileID) ([]Device, error) { return nil, errors.ErrUnsupported }

// FindNamed returns [errors.ErrUnsupported].
func FindNamed(context.Context, string) ([]Device, error) { return nil, errors.ErrUnsupported }

// Detach returns [errors.ErrUnsupported].
func Detach(context.Context, Device) error { return errors.ErrUnsupported }

// Refresh returns [errors.ErrUnsupported].
func Refresh(context.Context, string) error { return errors.ErrUnsupported }

// IsLoop returns false.
func IsLoop(uint64) (string, bool) { return "", false }
