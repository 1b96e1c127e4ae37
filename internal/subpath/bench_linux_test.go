// SPDX-License-Identifier: Apache-2.0

package subpath_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/internal/subpath"
)

func BenchmarkBind(b *testing.B) {
	mountns.RequirePrivate(b)
	subpaths, volume := filepath.Join(b.TempDir(), "volume-subpaths"), b.TempDir()
	target := filepath.Join(subpaths, "v/c/0")
	b.Run("and clean up", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, subpath.Bind(b.Context(), volume, "a/b", target))
			require.NoError(b, subpath.Clean(b.Context(), subpaths))
		}
	})
	b.Run("again", func(b *testing.B) {
		require.NoError(b, subpath.Bind(b.Context(), volume, "a/b", target))
		for b.Loop() {
			require.NoError(b, subpath.Bind(b.Context(), volume, "a/b", target))
		}
		require.NoError(b, subpath.Clean(b.Context(), subpaths))
	})
}
