// SPDX-License-Identifier: Apache-2.0

package blockmap

import (
	"testing"

	"github.com/volumekit/volumekit/internal/mounter"
)

func BenchmarkMapAndUnmap(b *testing.B) {
	device, _ := newDevice(b)
	m, mounter := mappingIn(b.TempDir(), device.Path, "uid-a"), mounter.New()
	for b.Loop() {
		if _, err := Map(b.Context(), mounter, m); err != nil {
			b.Fatal(err)
		}
		if err := Unmap(b.Context(), mounter, m); err != nil {
			b.Fatal(err)
		}
	}
}
