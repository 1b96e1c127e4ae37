// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	enterMountNamespace()
	silencePeer()
	unix.Umask(0o022) // the peer's files have it applied
	os.Exit(m.Run())
}

func BenchmarkFindPlugin(b *testing.B) { benchmarkJobs(b, findPluginJobs()) }

func BenchmarkEmptyDir(b *testing.B) { benchmarkJobs(b, emptyDirJobs()) }

func BenchmarkMount(b *testing.B) { benchmarkJobs(b, mountJobs()) }

func BenchmarkIsMountPoint(b *testing.B) { benchmarkJobs(b, mountPointJobs()) }

func BenchmarkHostPath(b *testing.B) { benchmarkJobs(b, hostPathJobs()) }

func BenchmarkVolumeManager(b *testing.B) { benchmarkJobs(b, volumeManagerJobs()) }

func BenchmarkMountTable(b *testing.B) { benchmarkJobs(b, mountTableJobs()) }

func BenchmarkOwnership(b *testing.B) { benchmarkJobs(b, ownershipJobs(new(manyFiles))) }

func BenchmarkUsage(b *testing.B) { benchmarkJobs(b, usageJobs(new(manyFiles))) }
