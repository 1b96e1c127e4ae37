// SPDX-License-Identifier: Apache-2.0

// Package mountns gives the tests of a package a mount namespace of their own, and fails them when they leave something
// behind. A package whose tests mount has
//
//	func TestMain(m *testing.M) { os.Exit(mountns.Main(m)) }
//
// and each test that mounts begins with [RequirePrivate].
package mountns

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package and returns the exit status for TestMain, which does nothing before.
//
// As root on Linux the test binary replaces itself (execve, so process ID, standard streams, arguments and inherited
// descriptors stay) by one whose threads are all in a new mount namespace, out of which no mount propagates, and whose
// TMPDIR is a directory of its own. Without the right to make such a namespace, and on other systems, the tests run where
// they are and [RequirePrivate] skips those that mount.
//
// Main returns non-zero, and says why on standard error, when a test fails or, after passing tests, when goroutines, mounts,
// files in TMPDIR, or loop devices on such files are left. A process that a test starts from its own binary, a fuzz worker
// among them, joins the namespace and leaves these checks to the first one.
func Main(m *testing.M) int {
	ns, err := enter()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mountns: no private mount namespace:", err)
		return 1
	}
	code := m.Run()
	if !ns.owner {
		return code
	}
	left := ns.left()
	if code == 0 {
		// Tests that fail rarely come to stopping what they started.
		if err := goleak.Find(); err != nil {
			left = append(left, err)
		}
	}
	for _, err := range left {
		fmt.Fprintln(os.Stderr, "mountns: left behind by the tests:", err)
	}
	if code == 0 && len(left) > 0 {
		return 1
	}
	return code
}
