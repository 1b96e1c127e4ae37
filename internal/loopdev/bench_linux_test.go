// SPDX-License-Identifier: Apache-2.0

package loopdev

import "testing"

func BenchmarkAttachAndDetach(b *testing.B) {
	path := image(b, 1<<20)
	for b.Loop() {
		h, err := Attach(b.Context(), path, Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := h.Close(); err != nil {
			b.Fatal(err)
		}
		if err := Detach(b.Context(), h.Device); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	path := image(b, 1<<20)
	id, err := FileIDOf(path)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Find(b.Context(), id); err != nil {
			b.Fatal(err)
		}
	}
}
