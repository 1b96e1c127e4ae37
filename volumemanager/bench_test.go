// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/plugins"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volumemanager"
)

func newBenchManager(b *testing.B) *volumemanager.Manager {
	mgr, err := volume.NewVolumePluginMgr(b.Context(), volume.Host{Root: b.TempDir()}, plugins.Default())
	require.NoError(b, err)
	b.Cleanup(mgr.Close)
	manager, err := volumemanager.New(b.Context(), mgr, volumemanager.Options{})
	require.NoError(b, err)
	b.Cleanup(func() { _ = manager.Close() })
	return manager
}

func BenchmarkSetUpAndTearDownPod(b *testing.B) {
	manager := newBenchManager(b)
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

// BenchmarkRun500Pods needs the right to mount.
func BenchmarkRun500Pods(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("mounts need root")
	}
	manager := newBenchManager(b)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- manager.Run(ctx) }()
	events := manager.Events(ctx, 10_000)
	var pods []*v1.Pod
	for i := range 500 {
		memory := emptyDir("memory")
		memory.EmptyDir.Medium = v1.StorageMediumMemory
		pods = append(pods, pod(fmt.Sprintf("web-%d", i), memory))
	}
	var up, down time.Duration
	for b.Loop() {
		begun := time.Now()
		require.NoError(b, manager.SetPods(ctx, pods))
		for _, p := range pods {
			_, err := manager.WaitForPod(ctx, p.UID)
			require.NoError(b, err)
		}
		up += time.Since(begun)
		begun = time.Now()
		require.NoError(b, manager.SetPods(ctx, nil))
		for gone := 0; gone < len(pods); {
			if e := <-events; e.Operation == volumemanager.OperationRemove {
				gone++
			}
		}
		down += time.Since(begun)
	}
	b.ReportMetric(float64(up.Milliseconds())/float64(b.N), "ms/up")
	b.ReportMetric(float64(down.Milliseconds())/float64(b.N), "ms/down")
	cancel()
	require.NoError(b, <-ended)
}
