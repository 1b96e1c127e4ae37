// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package volumetest_test

import "errors"

func detach(string) error { return errors.ErrUnsupported }
