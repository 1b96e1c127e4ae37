// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"time"

	"github.com/volumekit/volumekit/internal/callback"
	"github.com/volumekit/volumekit/volume"
)

// Watch has changed called whenever the object may have changed since it was last asked for. ok is false for an incomplete
// reference, for kinds that [Options] say are live, and when the source has been closed. A reference to ClusterTrustBundles may be
// without a name.
//
// When stop has returned, changed neither is running nor will be called: stop waits for calls that others have begun, so a lock
// that changed takes must not be held then. Called by changed itself, stop does not wait for that very call. It may be called
// more than once.
func (c *Cluster) Watch(ref volume.Reference, changed func()) (stop func(), ok bool) {
	w := callback.New(changed)
	c.mu.Lock()
	defer c.mu.Unlock()
	if ref.Kind == volume.KindClusterTrustBundle {
		if c.closed || c.live[ref.Kind] || ref.Namespace != "" {
			return nil, false
		}
		c.startBundles()
		return c.bundles.watch(ref.Name, w), true
	}
	if _, known := requestsFor(c.client, ref.Kind, ref.Namespace); !known || !isComplete(ref) {
		return nil, false
	}
	e := c.entry(ref)
	if e == nil {
		return nil, false
	}
	e.mu.Lock()
	e.watches[w] = struct{}{}
	e.mu.Unlock()
	return func() {
		c.forget(e, w)
		w.Stop()
	}, true
}

// forget ends that somebody is told.
func (c *Cluster) forget(e *entry, w *callback.Callback) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.mu.Lock()
	_, watched := e.watches[w]
	delete(e.watches, w)
	e.mu.Unlock()
	if !watched || c.closed || e.isWatched() {
		return
	}
	e.lastUse = time.Now()
	if e.timer == nil {
		c.arm(e, c.linger)
	}
}
