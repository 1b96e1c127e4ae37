// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package mountns

import "testing"

// DeadFUSE skips the test: it needs the FUSE of Linux.
func DeadFUSE(t testing.TB, dir string) (kill func()) {
	t.Helper()
	t.Skip("needs the FUSE of Linux to mount on " + dir)
	return nil
}
