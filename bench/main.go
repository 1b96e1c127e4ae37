// SPDX-License-Identifier: Apache-2.0

// Bench does the same jobs with volumekit and with k8s.io/kubernetes, in one process, and prints how they compare.
//
//	go run . [-tag core] [-run REGEXP] [-rounds 5] [-time 300ms]
//
// The two take turns, so that what disturbs the machine disturbs both; each figure is the median of the rounds. Mounts are
// made in a mount namespace of the program's own, which ends with it. An ordinary user gets one if the system lets users
// make user namespaces. Linux only.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"testing"
	"time"

	"k8s.io/klog/v2"
)

func main() {
	tag := flag.String("tag", "", "only the rows of this piece of work (core, manager, pods or block)")
	run := flag.String("run", "", "only the rows whose name matches this regular expression")
	rounds := flag.Int("rounds", 5, "measurements per row and side")
	benchtime := flag.Duration("time", 300*time.Millisecond, "how long one measurement takes")
	flag.Parse()
	filter, err := regexp.Compile(*run)
	if err != nil || *rounds < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: bench [-tag TAG] [-run REGEXP] [-rounds N] [-time DURATION]")
		os.Exit(2)
	}
	enterMountNamespace()
	silencePeer()
	testing.Init()
	if err := flag.Set("test.benchtime", benchtime.String()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	var results []result
	for _, j := range jobs() {
		if (*tag == "" || j.tag == *tag) && filter.MatchString(j.name) {
			fmt.Fprintln(os.Stderr, j.name)
			results = append(results, compare(j, *rounds))
		}
	}
	fmt.Println(machine())
	fmt.Println()
	printTable(os.Stdout, results)
	fmt.Println()
	if err := printWeight(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, r := range results {
		if r.failed() {
			os.Exit(1)
		}
	}
}

// silencePeer drops what the peer logs, which would be part of its time.
func silencePeer() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
}
