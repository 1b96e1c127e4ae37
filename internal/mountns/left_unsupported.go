// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package mountns

import "testing"

// CheckNoMountsLeft does nothing: no test mounts on this system.
func CheckNoMountsLeft(testing.TB) {}
