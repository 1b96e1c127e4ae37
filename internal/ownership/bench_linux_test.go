// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/mountns"
	"golang.org/x/sys/unix"
)

// BenchmarkApply walks 200,000 files on a tmpfs.
func BenchmarkApply(b *testing.B) {
	mountns.RequirePrivate(b)
	dir := b.TempDir()
	require.NoError(b, unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
	b.Cleanup(func() { require.NoError(b, unix.Unmount(dir, unix.MNT_DETACH)) })
	volume := filepath.Join(dir, "volume")
	wide(b, volume, 200, 1000)
	b.Run("another group each time", func(b *testing.B) {
		for i := int64(0); b.Loop(); i++ {
			_, err := Apply(b.Context(), volume, Options{Group: testGroup + i%2})
			require.NoError(b, err)
		}
	})
	b.Run("nothing to change", func(b *testing.B) {
		_, err := Apply(b.Context(), volume, Options{Group: testGroup})
		require.NoError(b, err)
		for b.Loop() {
			_, err := Apply(b.Context(), volume, Options{Group: testGroup})
			require.NoError(b, err)
		}
	})
}
