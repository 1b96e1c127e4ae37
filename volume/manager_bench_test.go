// SPDX-License-Identifier: Apache-2.0

package volume_test

import (
	"fmt"
	"testing"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// BenchmarkFindPluginBySpec finds a plugin beside a growing number of dynamic drivers, which must not matter.
func BenchmarkFindPluginBySpec(b *testing.B) {
	for _, drivers := range []int{0, 10, 100} {
		mgr := managerWithDrivers(b, drivers)
		scratch, driver := emptyDir(), csiSpec("driver-0")
		b.Run(fmt.Sprintf("emptyDir/drivers=%d", drivers), func(b *testing.B) { benchmarkFind(b, mgr, scratch) })
		if drivers > 0 {
			b.Run(fmt.Sprintf("csi/drivers=%d", drivers), func(b *testing.B) { benchmarkFind(b, mgr, driver) })
		}
	}
}

func benchmarkFind(b *testing.B, mgr *volume.VolumePluginMgr, spec *volume.Spec) {
	find := func(b *testing.B) {
		if _, err := mgr.FindPluginBySpec(spec); err != nil {
			b.Error(err)
		}
	}
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			find(b)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				find(b)
			}
		})
	})
}

// managerWithDrivers has three plugins, and drivers that a prober has found.
func managerWithDrivers(b *testing.B, drivers int) *volume.VolumePluginMgr {
	b.Helper()
	var found []volume.VolumePlugin
	for i := range drivers {
		driver := fmt.Sprintf("driver-%d", i)
		found = append(found, serving("example.com/"+driver, csi(driver)))
	}
	prober := make(volumetest.FakeProber, 1)
	prober <- volumetest.Found(found...)
	mgr := newManager(b, []volume.VolumePlugin{
		serving("example.com/empty-dir"),
		serving("example.com/host-path", volume.Source{Type: volume.SourceHostPath}),
		serving("example.com/nfs", volume.Source{Type: volume.SourceNFS}),
	}, volume.WithProber(prober))
	if err := mgr.WaitForProbers(b.Context()); err != nil {
		b.Fatal(err)
	}
	return mgr
}
