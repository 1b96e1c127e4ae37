// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
)

func BenchmarkSetUpAndTearDown(b *testing.B) {
	for _, medium := range []v1.StorageMedium{"", "Memory"} {
		b.Run("medium="+string(medium), func(b *testing.B) {
			mounter, unmounter := newBenchmark(b, medium)
			for b.Loop() {
				require.NoError(b, mounter.SetUp(b.Context(), volume.SetUpOptions{}))
				require.NoError(b, unmounter.TearDown(b.Context(), volume.TearDownOptions{}))
			}
		})
	}
}

func BenchmarkSetUpAgain(b *testing.B) {
	for _, medium := range []v1.StorageMedium{"", "Memory"} {
		b.Run("medium="+string(medium), func(b *testing.B) {
			mounter, unmounter := newBenchmark(b, medium)
			require.NoError(b, mounter.SetUp(b.Context(), volume.SetUpOptions{}))
			for b.Loop() {
				require.NoError(b, mounter.SetUp(b.Context(), volume.SetUpOptions{}))
			}
			require.NoError(b, unmounter.TearDown(b.Context(), volume.TearDownOptions{}))
		})
	}
}

func newBenchmark(b *testing.B, medium v1.StorageMedium) (volume.Mounter, volume.Unmounter) {
	b.Helper()
	if medium != "" {
		mountns.RequirePrivate(b)
	}
	plugin, pod, spec := New(Options{}), newPod(), newSpec(v1.EmptyDirVolumeSource{Medium: medium})
	host, err := volume.Host{Root: filepath.Join(b.TempDir(), "root")}.Complete()
	require.NoError(b, err)
	require.NoError(b, plugin.Init(b.Context(), host))
	mounter, err := plugin.NewMounter(spec, pod)
	require.NoError(b, err)
	unmounter, err := plugin.NewUnmounter(spec.Name(), pod.UID)
	require.NoError(b, err)
	return mounter, unmounter
}
