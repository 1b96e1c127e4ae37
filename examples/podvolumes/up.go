// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/examples/podvolumes/internal/manifest"
	"github.com/volumekit/volumekit/internal/parallel"
	"github.com/volumekit/volumekit/volumemanager"
)

// podsAtOnce is how many pods are worked on at the same time.
const podsAtOnce = 64

func up(ctx context.Context, args []string, s streams) error {
	o, err := parse("up", args, "f", "o", "hard-limits")
	if err != nil {
		return err
	}
	ctx, cancel := o.limit(ctx)
	defer cancel()
	loaded, err := load(ctx, o.files, s)
	if err != nil {
		return err
	}
	source, err := newObjectSource()
	if err != nil {
		return err
	}
	plugins, err := openPlugins(ctx, o, source.host)
	if err != nil {
		return err
	}
	defer plugins.Close()
	manager, err := volumemanager.New(ctx, plugins, volumemanager.Options{WaitForRoot: true})
	if err != nil {
		return err
	}
	defer func() { _ = manager.Close() }()
	source.book = openBook(plugins.Host(), s)
	loaded.Objects = withDefaultClass(loaded.Objects)
	if err := source.fill(loaded.Objects, s); err != nil {
		return err
	}
	unprovisioned := provision(ctx, source, loaded.Objects, podsOf(loaded.Pods))
	unprovisioned = append(unprovisioned, source.add(nil)...)
	// Before the volumes are mounted, as there are file systems that not everybody may grow while they are.
	if err := finishGrowing(ctx, source.book, manager); err != nil {
		unprovisioned = append(unprovisioned, strings.Split(err.Error(), "\n")...)
	}

	statuses := make([]volumemanager.PodStatus, len(loaded.Pods))
	progress := newProgress(s.err, "set up", len(loaded.Pods))
	parallel.Each(len(loaded.Pods), podsAtOnce, func(i int) {
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
	for _, fault := range unprovisioned {
		s.complain("%s", fault)
	}
	err = complainAbout(pods, s)
	if err == nil && len(unprovisioned) > 0 {
		err = errNotServed
	}
	if !o.onDisk && lacksMemory(pods) {
		s.complain("note: with -content-on-disk, config maps, secrets and the like need no root, but stay on the disk")
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %s; run the same command again to go on", context.Cause(ctx), tally(pods))
	}
	return err
}

func podsOf(loaded []manifest.Pod) []*v1.Pod {
	pods := make([]*v1.Pod, len(loaded))
	for i := range loaded {
		pods[i] = loaded[i].Pod
	}
	return pods
}

// lacksMemory reports whether a volume that could be on disk is not there because its file system must not be mounted.
func lacksMemory(pods []reportedPod) bool {
	for i := range pods {
		for _, v := range pods[i].Volumes {
			if isContent(v.Plugin) && errors.Is(v.Err, fs.ErrPermission) {
				return true
			}
		}
	}
	return false
}

// tally counts the volumes that are there.
func tally(pods []reportedPod) string {
	var there, all int
	for i := range pods {
		for _, v := range pods[i].volumes() {
			all++
			if v.State == volumemanager.Mounted {
				there++
			}
		}
	}
	return fmt.Sprintf("%d of %d volumes are there", there, all)
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

// pendingNamed is how many volumes are named that were not come to: of one that hangs that is the name, of thousands that
// were interrupted it is enough.
const pendingNamed = 10

// complainAbout writes what is wrong with the pods to standard error, one line each: first what failed, then what is pending.
func complainAbout(pods []reportedPod, s streams) error {
	var failed, pending []string
	for i := range pods {
		for _, warning := range pods[i].warnings() {
			s.complain("warning: %s", warning)
		}
		failed = append(failed, pods[i].failures()...)
		pending = append(pending, pods[i].pending()...)
	}
	for _, line := range failed {
		s.complain("%s", line)
	}
	for i, line := range pending {
		if i == pendingNamed {
			s.complain("and %d more volumes are pending", len(pending)-i)
			break
		}
		s.complain("%s", line)
	}
	if len(failed)+len(pending) > 0 {
		return errNotServed
	}
	return nil
}
