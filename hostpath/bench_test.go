// SPDX-License-Identifier: Apache-2.0

package hostpath_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/volume"
)

// BenchmarkSetUp is what a pod start costs for a hostPath that exists.
func BenchmarkSetUp(b *testing.B) {
	for name, options := range map[string]hostpath.Options{
		"every path is allowed": {},
		"with an allow-list":    {AllowedPaths: []hostpath.AllowedPath{{Prefix: "/"}}},
	} {
		for _, kind := range []v1.HostPathType{v1.HostPathUnset, v1.HostPathDirectory} {
			b.Run(name+"/type="+string(kind), func(b *testing.B) {
				plugin, spec := start(b, options), inline(b.TempDir(), kind)
				b.ReportAllocs()
				for b.Loop() {
					mounter, err := plugin.NewMounter(spec, nil)
					if err != nil {
						b.Fatal(err)
					}
					if err := mounter.SetUp(b.Context(), volume.SetUpOptions{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
