// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"runtime"
	"slices"
	"sync"
	"time"

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
	w := newCallback(changed)
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
		w.stop()
	}, true
}

// forget ends that somebody is told.
func (c *Cluster) forget(e *entry, w *callback) {
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

// callback is one who is told of changes.
type callback struct {
	changed func()

	mu       sync.Mutex
	stopped  bool
	callers  []string // the goroutines that are in changed
	returned sync.Cond
}

func newCallback(changed func()) *callback {
	w := &callback{changed: changed}
	w.returned.L = &w.mu
	return w
}

// call calls changed unless the callback has been stopped.
func (w *callback) call() {
	caller := goroutine()
	w.mu.Lock()
	if w.stopped {
		w.mu.Unlock()
		return
	}
	w.callers = append(w.callers, caller)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		at := slices.Index(w.callers, caller)
		w.callers = slices.Delete(w.callers, at, at+1)
		w.returned.Broadcast()
	}()
	w.changed()
}

// stop makes sure that changed is not called any more, and waits for the calls of other goroutines.
func (w *callback) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if len(w.callers) == 0 {
		return
	}
	self := goroutine()
	for slices.ContainsFunc(w.callers, func(caller string) bool { return caller != self }) {
		w.returned.Wait()
	}
}

// goroutine returns what tells the calling goroutine from others: the number with which its stack trace begins. It decides
// nothing but whether waiting would be for oneself.
func goroutine() string {
	buffer := make([]byte, 64)
	number, _, _ := bytes.Cut(bytes.TrimPrefix(buffer[:runtime.Stack(buffer, false)], []byte("goroutine ")), []byte(" "))
	return string(number)
}
