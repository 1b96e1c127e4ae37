// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Operation is something that a manager does to a volume, or to a pod.
type Operation string

const (
	// OperationResolve finds out which PersistentVolume a claim of a pod is bound to.
	OperationResolve Operation = "resolve"
	// OperationSetUp makes a volume available to a pod.
	OperationSetUp Operation = "set up"
	// OperationRefresh brings a volume that is there up to date with what its content depends on.
	OperationRefresh Operation = "refresh"
	// OperationExpand looks whether the PersistentVolume has grown where it is stored, and then has the node grow the device and its
	// file system too.
	OperationExpand Operation = "expand"
	// OperationTearDown takes a volume away from a pod.
	OperationTearDown Operation = "tear down"
	// OperationVerify proves that what was set up is still there.
	OperationVerify Operation = "verify"
	// OperationRecover takes over what an earlier manager left of a pod.
	OperationRecover Operation = "recover"
	// OperationRemove takes away what was recorded of a pod, and its directories, once its volumes are gone.
	OperationRemove Operation = "remove"
)

// looksAtObjects reports whether the operation depends on what a volume's content comes from.
func (o Operation) looksAtObjects() bool {
	return o == OperationResolve || o == OperationSetUp || o == OperationRefresh || o == OperationExpand
}

// Outcome is how an operation ended.
type Outcome string

const (
	// OutcomeSucceeded: it did what it was to do.
	OutcomeSucceeded Outcome = "succeeded"
	// OutcomeFailed: it had an error.
	OutcomeFailed Outcome = "failed"
	// OutcomeUncertain: it may have had its effect or not, see [volume.ErrUncertain].
	OutcomeUncertain Outcome = "uncertain"
)

// Event tells that an operation has ended.
type Event struct {
	// Time is when it ended, and Duration how long it took.
	Time     time.Time
	Duration time.Duration

	// Namespace and Name are the pod's, empty if they are lost.
	Namespace, Name string
	UID             types.UID

	// Volume is the volume's name in the pod, and Plugin that of its plugin. They are empty in what concerns the pod as a
	// whole.
	Volume, Plugin string

	// Operation is what was done, and Outcome how it ended.
	Operation Operation
	Outcome   Outcome

	// Err says why it did not succeed. Nil if it did.
	Err error

	// Warnings are what the plugin had to say although it went on.
	Warnings []string

	// NextTry is when it is tried again, zero if nothing is planned.
	NextTry time.Time

	// Lost counts the events between the one before and this one that the subscriber did not get, because it was too slow.
	Lost int
}

// Events returns what happens from now on, until ctx ends; then the channel is closed. A subscriber that falls behind by
// more than buffer events loses the oldest of them, and holds up nobody; buffer is at least 1.
func (m *Manager) Events(ctx context.Context, buffer int) <-chan Event {
	return m.events.subscribe(ctx, buffer)
}

// broadcast hands events to subscribers. The zero value has none.
type broadcast struct {
	mu          sync.Mutex
	subscribers map[*subscriber]bool
}

type subscriber struct {
	events chan Event
	lost   int
}

func (b *broadcast) subscribe(ctx context.Context, buffer int) <-chan Event {
	s := &subscriber{events: make(chan Event, max(buffer, 1))}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subscribers == nil {
		b.subscribers = make(map[*subscriber]bool)
	}
	b.subscribers[s] = true
	context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.subscribers, s)
		close(s.events)
	})
	return s.events
}

func (b *broadcast) publish(e Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.subscribers {
		s.put(e)
	}
}

// put makes room by dropping the oldest event, if it has to. Only one goroutine puts at a time.
func (s *subscriber) put(e Event) {
	e.Lost = s.lost
	for {
		select {
		case s.events <- e:
			s.lost = 0
			return
		default:
		}
		select {
		case dropped := <-s.events:
			// What the dropped one knew to be lost is lost before the next one too.
			e.Lost += 1 + dropped.Lost
		default:
		}
	}
}
