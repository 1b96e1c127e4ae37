// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	kvolume "k8s.io/kubernetes/pkg/volume"

	"github.com/volumekit/volumekit/internal/usage"
)

// usageJobs measure what a volume takes up, and how full its file system is, as for the metrics of an emptyDir.
func usageJobs(volume *manyFiles) []job {
	return []job{{
		tag:    "pods",
		name:   "usage of a directory of 200,000 files",
		target: "3x",
		peer: func(b *testing.B) {
			metrics := kvolume.NewMetricsDu(volume.directory(b))
			for b.Loop() {
				if _, err := metrics.GetMetrics(); err != nil {
					b.Fatal(err)
				}
			}
		},
		ours: func(b *testing.B) {
			path := volume.directory(b)
			for b.Loop() {
				if _, err := usage.Walk(b.Context(), path); err != nil {
					b.Fatal(err)
				}
				if _, err := usage.Statfs(b.Context(), path); err != nil {
					b.Fatal(err)
				}
			}
		},
	}}
}
