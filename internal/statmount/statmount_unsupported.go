// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package statmount

import (
	"errors"
	"fmt"
)

var errNotLinux = fmt.Errorf("statmount: %w", errors.ErrUnsupported)

// Get returns an error that matches [errors.ErrUnsupported].
func Get(uint64, Fields) (Mount, error) { return Mount{}, errNotLinux }

// List returns an error that matches [errors.ErrUnsupported].
func List(ids []uint64) ([]uint64, error) { return ids, errNotLinux }
