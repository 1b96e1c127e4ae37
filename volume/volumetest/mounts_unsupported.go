// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package volumetest

import (
	"testing"
)

// Nothing mounts on this system: checks that do are skipped.

func readMounts(testing.TB) mountTable { return nil }

func bindMount(t testing.TB, source, target string) {
	t.Helper()
	t.Fatalf("cannot bind %s on %s on this system", source, target)
}

func mountTmpfs(t testing.TB, target, data string) {
	t.Helper()
	t.Fatalf("cannot mount a tmpfs (%s) on %s on this system", data, target)
}

func remountTmpfs(t testing.TB, target, data string) { mountTmpfs(t, target, data) }

func unmount(t testing.TB, target string) {
	t.Helper()
	t.Fatalf("cannot unmount %s on this system", target)
}

func detachBelow(testing.TB, string) {}
