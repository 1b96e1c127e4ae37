// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/volumekit/volumekit/internal/callback"
	"github.com/volumekit/volumekit/volume"
)

// entry is an object that is being watched. It is the store that a reflector fills.
type entry struct {
	ref    volume.Reference
	cancel context.CancelFunc

	// These are guarded by the mu of the cluster.
	lastUse time.Time
	timer   *time.Timer // runs while nobody watches

	mu      sync.Mutex
	watches map[*callback.Callback]struct{}

	// synced says that the reflector has told what there is.
	synced bool

	// object is the last that was heard of, from the reflector or in answer to a question, nil if there was none then; known is
	// false if nothing has been heard.
	object object
	known  bool

	// unanswered says that somebody asked since when the API server could not be.
	unanswered bool

	// changes counts how often the object became something else than what was known.
	changes int
}

// use returns the entry of the object, which is watched from now on, or nil if it is not to be.
func (c *Cluster) use(ref volume.Reference) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entry(ref)
}

// entry is use with mu locked.
func (c *Cluster) entry(ref volume.Reference) *entry {
	if c.closed || c.live[ref.Kind] {
		return nil
	}
	e := c.entries[ref]
	if e == nil {
		e = &entry{ref: ref, watches: make(map[*callback.Callback]struct{})}
		c.entries[ref] = e
		c.start(e)
		c.arm(e, c.linger)
	}
	e.lastUse = time.Now()
	return e
}

// arm has it looked later whether anybody still uses the entry. mu is locked.
func (c *Cluster) arm(e *entry, after time.Duration) {
	e.timer = time.AfterFunc(after, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.entries[e.ref] != e || e.isWatched() {
			e.timer = nil
			return
		}
		if left := c.linger - time.Since(e.lastUse); left > 0 {
			c.arm(e, left)
			return
		}
		delete(c.entries, e.ref)
		e.cancel()
	})
}

func (e *entry) disarm() {
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
}

func (e *entry) isWatched() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.watches) > 0
}

// start begins to watch the object at the API server. mu of the cluster is locked.
func (c *Cluster) start(e *entry) {
	requests, _ := requestsFor(c.client, e.ref.Kind, e.ref.Namespace)
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, e.ref.Name).String()
	one := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = selector
			return requests.list(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			return requests.watch(ctx, options)
		},
	}
	reflector := cache.NewReflectorWithOptions(
		cache.ToListWatcherWithWatchListSemantics(one, c.client), requests.empty, e, cache.ReflectorOptions{Name: "volumekit: " + e.ref.String()},
	)
	ctx, cancel := context.WithCancel(c.ctx)
	e.cancel = cancel
	c.watching.Go(func() {
		defer cancel()
		reflector.RunWithContext(ctx)
	})
}

// find returns the object.
func (e *entry) find(ctx context.Context, c *Cluster) (object, error) {
	for {
		e.mu.Lock()
		found, synced, changes := e.object, e.synced, e.changes
		e.mu.Unlock()
		if synced && found != nil {
			return found, nil
		}
		found, err := c.ask(ctx, e.ref)
		if err != nil && !errors.Is(err, volume.ErrNotFound) {
			if e.noAnswer(changes) {
				return nil, err
			}
			continue
		}
		if e.hear(found, func() bool { return e.changes == changes }) {
			return found, err
		}
		// The reflector told of something while the question was under way, and the answer may be older.
	}
}

// noAnswer notes that somebody had none, unless something has been heard since.
func (e *entry) noAnswer(changes int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.changes != changes {
		return false
	}
	e.unanswered = true
	return true
}

// hear takes in what the object is now, nil if it is not there, if that is to count. mu is locked when counts is called. Who
// watches is told of something else than what was known, and of the first that is known if somebody had no answer before.
func (e *entry) hear(now object, counts func() bool) bool {
	e.mu.Lock()
	if !counts() {
		e.mu.Unlock()
		return false
	}
	var told []*callback.Callback
	if !e.known || !isSame(e.object, now) {
		e.changes++
		if e.known || e.unanswered {
			told = slices.Collect(maps.Keys(e.watches))
		}
	}
	e.object, e.known, e.unanswered = now, true, false
	e.mu.Unlock()
	for _, w := range told {
		w.Call()
	}
	return true
}

func isSame(a, b object) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion()
}

// Add, and the methods below, are those of a store for a reflector.
func (e *entry) Add(added any) error { return e.Update(added) }

// Update takes in an event.
func (e *entry) Update(updated any) error {
	now, err := e.mine(updated)
	if now == nil {
		return err
	}
	e.hear(now, func() bool { return !isOlder(now, e.object) })
	return nil
}

// Delete takes in that the object has been deleted.
func (e *entry) Delete(deleted any) error {
	gone, err := e.mine(deleted)
	if gone == nil {
		return err
	}
	e.hear(nil, func() bool { return e.object == nil || e.object.GetUID() == gone.GetUID() })
	return nil
}

// Replace takes in what there is: one object at most.
func (e *entry) Replace(items []any, _ string) error {
	var now object
	for _, item := range items {
		mine, err := e.mine(item)
		if err != nil {
			return err
		}
		if mine != nil {
			now = mine
		}
	}
	e.hear(now, func() bool {
		e.synced = true
		return true
	})
	return nil
}

// Resync does nothing.
func (e *entry) Resync() error { return nil }

// mine returns the object if it is the one that was asked for: a server behind something that drops selectors may send others.
func (e *entry) mine(item any) (object, error) {
	o, ok := item.(object)
	if !ok {
		return nil, fmt.Errorf("watch %s: got a %T", e.ref, item)
	}
	if o.GetName() != e.ref.Name || o.GetNamespace() != e.ref.Namespace {
		return nil, nil
	}
	return o, nil
}

// isOlder reports whether an event is of before an answer that the API server has given since.
func isOlder(event, known object) bool {
	if known == nil || event.GetUID() != known.GetUID() {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(event.GetResourceVersion(), known.GetResourceVersion())
	return err == nil && order < 0
}
