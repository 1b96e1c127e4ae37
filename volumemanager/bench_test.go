// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/plugins"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volumemanager"
)

func BenchmarkSetUpAndTearDownPod(b *testing.B) {
	mgr, err := volume.NewVolumePluginMgr(b.Context(), volume.Host{Root: b.TempDir()}, plugins.Default())
	require.NoError(b, err)
	defer mgr.Close()
	manager, err := volumemanager.New(b.Context(), mgr, volumemanager.Options{})
	require.NoError(b, err)
	defer manager.Close()
	p := pod("web", emptyDir("cache"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := manager.SetUpPod(b.Context(), p); err != nil {
			b.Fatal(err)
		}
		if err := manager.TearDownPod(b.Context(), p.UID); err != nil {
			b.Fatal(err)
		}
	}
}
