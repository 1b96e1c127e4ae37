// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package mountns

import "testing"

// RequirePrivate skips the test: there are no mount namespaces on this system.
func RequirePrivate(t testing.TB) {
	t.Helper()
	t.Skip("needs the mount namespaces of Linux")
}

type namespace struct{ owner bool }

func enter() (namespace, error) { return namespace{owner: true}, nil }

func (namespace) left() []error { return nil }
