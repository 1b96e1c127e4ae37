// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/volumekit/volumekit/examples/podvolumes/internal/manifest"
	"github.com/volumekit/volumekit/volumemanager"
)

// podsAtOnce is how many pods are worked on at the same time.
const podsAtOnce = 64

func up(ctx context.Context, args []string, s streams) error {
	o, err := parse("up", args, "f", "o")
	if err != nil {
		return err
	}
	ctx, cancel := o.limit(ctx)
	defer cancel()
	loaded, err := load(ctx, o.files, s)
	if err != nil {
		return err
	}
	plugins, err := openPlugins(ctx, o.root)
	if err != nil {
		return err
	}
	defer plugins.Close()
	manager, err := volumemanager.New(ctx, plugins, volumemanager.Options{WaitForRoot: true})
	if err != nil {
		return err
	}
	defer func() { _ = manager.Close() }()

	statuses := make([]volumemanager.PodStatus, len(loaded.Pods))
	progress := newProgress(s.err, "set up", len(loaded.Pods))
	eachAtOnce(len(loaded.Pods), func(i int) {
		// What went wrong is in the status too.
		statuses[i], _ = manager.SetUpPod(ctx, loaded.Pods[i].Pod)
		progress.step()
	})
	progress.end()

	pods := make([]reportedPod, len(statuses))
	for i, status := range statuses {
		pods[i] = reportedPod{PodStatus: status, pod: loaded.Pods[i].Pod, origin: loaded.Pods[i].Origin.String()}
	}
	if err := show(pods, o.output, s); err != nil {
		return err
	}
	if o.output == "" {
		showIgnored(loaded.Ignored, s)
	}
	if len(pods) == 0 {
		s.complain("note: there are no pods in what was given")
	}
	if ctx.Err() != nil {
		return interrupted(ctx, pods)
	}
	return complainAbout(pods, s)
}

// interrupted sums up what was not come to, rather than naming each of what may be thousands.
func interrupted(ctx context.Context, pods []reportedPod) error {
	var there, all int
	for i := range pods {
		for _, v := range pods[i].volumes() {
			all++
			if v.State == volumemanager.Mounted {
				there++
			}
		}
	}
	return fmt.Errorf("%w: %d of %d volumes are there; run the same command again to go on", context.Cause(ctx), there, all)
}

// load reads the manifests. If anything is wrong with them nothing else is done.
func load(ctx context.Context, files []string, s streams) (*manifest.Result, error) {
	if len(files) == 0 {
		return nil, misuse("no manifest: name one with -f FILE, or -f - for standard input")
	}
	loaded, errs := manifest.Load(ctx, files, manifest.Options{Stdin: s.in})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for _, err := range errs {
		s.complain("%v", err)
	}
	if len(errs) > 0 {
		return nil, errUnreadable
	}
	return loaded, nil
}

// complainAbout writes what is wrong with the pods to standard error, one line each.
func complainAbout(pods []reportedPod, s streams) error {
	well := true
	for i := range pods {
		for _, warning := range pods[i].warnings() {
			s.complain("warning: %s", warning)
		}
		for _, err := range pods[i].errors() {
			s.complain("%s", err)
			well = false
		}
	}
	if !well {
		return errNotServed
	}
	return nil
}

// eachAtOnce calls f with 0 to n-1, some of them at the same time.
func eachAtOnce(n int, f func(i int)) {
	slots := make(chan struct{}, podsAtOnce)
	var running sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	running.Wait()
}
