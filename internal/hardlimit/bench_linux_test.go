// SPDX-License-Identifier: Apache-2.0

package hardlimit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/mountns"
)

func benchmarkDir(b *testing.B) string {
	mountns.RequirePrivate(b)
	dir := filepath.Join(b.TempDir(), "volume")
	require.NoError(b, os.Mkdir(dir, 0o700))
	return dir
}

// Most of it is mkfs, and waiting for the disk.
func BenchmarkApplyAndRemoveAnImage(b *testing.B) {
	dir, options := benchmarkDir(b), Options{Bytes: 1 << 30, Only: Image}
	for b.Loop() {
		_, err := Apply(b.Context(), dir, options)
		require.NoError(b, err)
		require.NoError(b, Remove(b.Context(), dir, options))
	}
}

func BenchmarkApplyAgain(b *testing.B) {
	dir, options := benchmarkDir(b), Options{Bytes: 1 << 30, Only: Image}
	for b.Loop() {
		_, err := Apply(b.Context(), dir, options)
		require.NoError(b, err)
	}
	require.NoError(b, Remove(b.Context(), dir, options))
}

func BenchmarkUsage(b *testing.B) {
	dir, options := benchmarkDir(b), Options{Bytes: 1 << 30, Only: Image}
	_, err := Apply(b.Context(), dir, options)
	require.NoError(b, err)
	for b.Loop() {
		_, err := UsageOf(b.Context(), dir, "")
		require.NoError(b, err)
	}
	require.NoError(b, Remove(b.Context(), dir, options))
}

func BenchmarkRemoveNothing(b *testing.B) {
	dir := benchmarkDir(b)
	for b.Loop() {
		require.NoError(b, Remove(b.Context(), dir, Options{}))
	}
}
