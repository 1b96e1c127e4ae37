// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"
)

// A job is one thing that both volume layers do: one row of the table.
type job struct {
	// tag names the piece of work that the row belongs to, "core", "manager", "pods" or "block".
	tag string

	// name says what is done once per iteration.
	name string

	// target is what volumekit set out to reach, in words; empty for what is shown for comparison only.
	target string

	// metric names what the halves report with b.ReportMetric, in nanoseconds, and is shown instead of the time per
	// iteration; empty for the time.
	metric string

	// allocs shows the allocations per iteration beside the time.
	allocs bool

	// peer does the job with k8s.io/kubernetes and k8s.io/mount-utils, ours with volumekit.
	peer, ours func(*testing.B)
}

// jobs returns every row, in the order in which they are printed.
func jobs() []job {
	var all []job
	volume := new(manyFiles)
	all = append(all, findPluginJobs()...)
	all = append(all, emptyDirJobs()...)
	all = append(all, mountJobs()...)
	all = append(all, mountPointJobs()...)
	all = append(all, hostPathJobs()...)
	all = append(all, volumeManagerJobs()...)
	all = append(all, mountTableJobs()...)
	all = append(all, ownershipJobs(volume)...)
	all = append(all, usageJobs(volume)...)
	all = append(all, configMapJobs()...)
	all = append(all, loopDeviceJobs()...)
	all = append(all, blockMapJobs()...)
	return all
}

// benchmarkJobs runs both halves of each job as sub-benchmarks of b, so that `go test -bench` and benchstat can be used
// on them too.
func benchmarkJobs(b *testing.B, jobs []job) {
	for _, j := range jobs {
		b.Run(fmt.Sprintf("peer/%s", j.name), j.peer)
		b.Run(fmt.Sprintf("volumekit/%s", j.name), j.ours)
	}
}
