// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mounttable"
)

// mountTableJobs ask what is mounted where. The peer reads the mount table each time.
func mountTableJobs() []job {
	const others = 10_000
	return []job{
		{
			tag: "manager", name: "what is mounted where, 10000 mounts, nothing changed", target: "1000x",
			metric: lookMetric, peer: listing(peerList, others, false), ours: listing(tableList, others, false),
		},
		{
			tag: "manager", name: "what is mounted where, 10000 mounts, one changed", target: "50x",
			metric: lookMetric, peer: listing(peerList, others, true), ours: listing(tableList, others, true),
		},
	}
}

// lookMetric is the time of a look at the mounts, without that of the mount that changes them.
const lookMetric = "ns/look"

// listing measures what newList returns, which returns how many mounts there are.
func listing(newList func(*testing.B) func() int, others int, changing bool) func(*testing.B) {
	return func(b *testing.B) {
		crowd(b, others)
		source, target := b.TempDir(), filepath.Join(b.TempDir(), "target")
		mkdir(b, target)
		list := newList(b)
		mounts := list()
		var spent time.Duration
		for b.Loop() {
			want := mounts
			if changing {
				want++
				if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
					b.Fatal(err)
				}
			}
			begun := time.Now()
			got := list()
			spent += time.Since(begun)
			if changing {
				if err := unix.Unmount(target, 0); err != nil {
					b.Fatal(err)
				}
				list()
			}
			if got != want {
				b.Fatalf("%d mounts are listed, want %d", got, want)
			}
		}
		b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), lookMetric)
	}
}

func peerList(b *testing.B) func() int {
	m := newPeerMounter()
	return func() int {
		mounts, err := m.List()
		if err != nil {
			b.Fatal(err)
		}
		return len(mounts)
	}
}

func tableList(b *testing.B) func() int {
	table, err := mounttable.New()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := table.Close(); err != nil {
			b.Error(err)
		}
	})
	return func() int {
		mounts, err := table.Mounts()
		if err != nil {
			b.Fatal(err)
		}
		return len(mounts)
	}
}
