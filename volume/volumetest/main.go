// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"testing"

	"github.com/volumekit/volumekit/internal/mountns"
)

// Main runs the tests of a package and returns the exit status for TestMain, which does nothing else:
//
//	func TestMain(m *testing.M) { os.Exit(volumetest.Main(m)) }
//
// As root on Linux the tests then run in a mount namespace of their own, out of which no mount propagates, and with a
// TMPDIR of their own; the status is that of failed tests if they leave mounts, files, loop devices or goroutines behind.
// For everybody else they run where they are, and what has to mount is skipped.
func Main(m *testing.M) int { return mountns.Main(m) }
