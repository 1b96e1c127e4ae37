// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// result is a job with the medians of both sides.
type result struct {
	job
	peer, ours cost
}

// cost is that of one iteration, or what the job's metric says.
type cost struct {
	ns     float64
	allocs int64
}

// failed reports whether a side has no figure.
func (r result) failed() bool {
	return r.peer.ns == 0 || r.ours.ns == 0
}

// compare measures both sides in turn.
func compare(j job, rounds int) result {
	var peer, ours []cost
	for range rounds {
		peer = append(peer, measure(j, "peer", j.peer))
		ours = append(ours, measure(j, "volumekit", j.ours))
	}
	return result{job: j, peer: median(peer), ours: median(ours)}
}

func measure(j job, side string, f func(*testing.B)) cost {
	r := testing.Benchmark(f)
	if r.N == 0 {
		// testing.Benchmark keeps the reason to itself.
		fmt.Fprintf(os.Stderr, "%s with %s failed; `go test -bench .` shows why\n", j.name, side)
		return cost{}
	}
	if j.metric != "" {
		return cost{ns: r.Extra[j.metric]}
	}
	return cost{ns: float64(r.T.Nanoseconds()) / float64(r.N), allocs: r.AllocsPerOp()}
}

func median(costs []cost) cost {
	slices.SortFunc(costs, func(a, b cost) int { return cmp.Compare(a.ns, b.ns) })
	return costs[len(costs)/2]
}

// printTable writes the results as a table in Markdown.
func printTable(w io.Writer, results []result) {
	fmt.Fprintln(w, "| job | k8s.io/kubernetes | volumekit | ratio | target |")
	fmt.Fprintln(w, "|---|---|---|---|---|")
	for _, r := range results {
		ratio := "failed"
		if !r.failed() {
			ratio = fmt.Sprintf("%.1fx", r.peer.ns/r.ours.ns)
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", r.name, r.show(r.peer), r.show(r.ours), ratio, r.target)
	}
}

func (r result) show(c cost) string {
	if c.ns == 0 {
		return "failed"
	}
	if r.allocs {
		return fmt.Sprintf("%s, %d allocs", duration(c.ns), c.allocs)
	}
	return duration(c.ns)
}

// duration shows nanoseconds with three digits and their unit.
func duration(ns float64) string {
	switch {
	case ns < 1e3:
		return fmt.Sprintf("%.3g ns", ns)
	case ns < 1e6:
		return fmt.Sprintf("%.3g us", ns/1e3)
	case ns < 1e9:
		return fmt.Sprintf("%.3g ms", ns/1e6)
	}
	return time.Duration(ns).Round(10 * time.Millisecond).String()
}

// machine says what the figures were measured on, and with which peer.
func machine() string {
	var uname unix.Utsname
	kernel := "Linux"
	if unix.Uname(&uname) == nil {
		release, _, _ := strings.Cut(unix.ByteSliceToString(uname.Release[:]), "-")
		kernel += " " + release
	}
	peer := "k8s.io/kubernetes"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == peer {
				peer += " " + m.Version
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores, %s, %s", kernel, runtime.NumCPU(), runtime.Version(), peer)
}
