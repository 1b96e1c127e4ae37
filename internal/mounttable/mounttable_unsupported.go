// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package mounttable

import (
	"context"
	"errors"
	"fmt"
)

var errNotLinux = fmt.Errorf("mount tables are known on Linux only: %w", errors.ErrUnsupported)

type reader struct{}

func open() (reader, error) { return reader{}, errNotLinux }

func (*reader) read([]*Mount) ([]*Mount, error) { return nil, errNotLinux }

func (*reader) close() error { return nil }

func watch(context.Context) (<-chan struct{}, error) { return nil, errNotLinux }
