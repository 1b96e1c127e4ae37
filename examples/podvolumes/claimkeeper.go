// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/volumekit/volumekit/examples/podvolumes/internal/manifest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volumemanager"
)

// claimKeeper gives the claims of manifests that come and change their volumes, beside everything else, and deletes the volumes that
// were made for pods which are gone. What fails is tried again.
type claimKeeper struct {
	source  *objectSource
	manager *volumemanager.Manager
	plugins *volume.VolumePluginMgr
	s       streams

	mu       sync.Mutex
	objects  []manifest.Object
	pods     []*v1.Pod
	reported []string
	news     chan struct{} // has room for one
}

func newClaimKeeper(source *objectSource, manager *volumemanager.Manager, plugins *volume.VolumePluginMgr, s streams) *claimKeeper {
	return &claimKeeper{source: source, manager: manager, plugins: plugins, s: s, news: make(chan struct{}, 1)}
}

// follow says which objects and pods there are now.
func (k *claimKeeper) follow(objects []manifest.Object, pods []*v1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.objects, k.pods = objects, pods
	select {
	case k.news <- struct{}{}:
	default:
	}
}

// faults are what is wrong with claims now.
func (k *claimKeeper) faults() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reported
}

// claimBackoff is how long is waited before what has failed is tried again.
var claimBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 8, Cap: 2 * time.Minute}

// run does so until ctx ends. Pods that go are noticed by the manager's events.
func (k *claimKeeper) run(ctx context.Context) error {
	events := k.manager.Events(ctx, 1000)
	backoff := claimBackoff
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.news:
			backoff = claimBackoff
		case <-again:
		case e, ok := <-events:
			if !ok || e.Operation != volumemanager.OperationRemove || !k.wasMadeFor(e.UID) {
				continue
			}
		}
		again = nil
		if failed := k.serve(ctx); failed {
			again = time.After(backoff.Step())
		}
	}
}

// wasMadeFor reports whether the volume of a claim was made for the pod.
func (k *claimKeeper) wasMadeFor(uid types.UID) bool {
	for _, e := range k.source.book.Entries() {
		if e.Pod == uid {
			return true
		}
	}
	return false
}

// serve does what is to be done, and reports whether something has failed.
func (k *claimKeeper) serve(ctx context.Context) (failed bool) {
	k.mu.Lock()
	objects, pods := k.objects, k.pods
	k.mu.Unlock()
	faults := provision(ctx, k.source, objects, pods)
	faults = append(faults, k.source.add(nil)...)
	if err := finishGrowing(ctx, k.source.book, k.manager); err != nil {
		faults = append(faults, errorText(err))
	}
	gone := func(e types.UID) bool {
		return e != "" && !slices.ContainsFunc(pods, func(pod *v1.Pod) bool { return pod.UID == e })
	}
	for _, e := range k.source.book.Entries() {
		if gone(e.Pod) {
			_, errs := deleteClaims(ctx, k.source.book, k.plugins, func(types.NamespacedName) bool { return false }, k.s)
			for _, err := range errs {
				faults = append(faults, errorText(err))
			}
			break
		}
	}
	if ctx.Err() != nil {
		return false
	}
	k.mu.Lock()
	before := k.reported
	k.reported = faults
	k.mu.Unlock()
	for _, fault := range faults {
		if !slices.Contains(before, fault) {
			k.s.complain("%s", fault)
		}
	}
	return len(faults) > 0
}
