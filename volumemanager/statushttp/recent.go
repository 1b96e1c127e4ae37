// SPDX-License-Identifier: Apache-2.0

package statushttp

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volumemanager"
)

// recentKept is how many events are remembered.
const recentKept = 100

// recentEvents remembers what happened last. That a volume was found to be in order is not worth remembering: it happens all
// the time and would drive out the rest.
type recentEvents struct {
	mu   sync.Mutex
	ring [recentKept]recentEvent
	// count is of all that were added; the newest is at (count-1) modulo the size.
	count int
}

// recentEvent is an event as the page and /state show it.
type recentEvent struct {
	Time      time.Time               `json:"time"`
	Seconds   float64                 `json:"durationSeconds"`
	Namespace string                  `json:"namespace,omitempty"`
	Name      string                  `json:"name,omitempty"`
	UID       types.UID               `json:"uid"`
	Volume    string                  `json:"volume,omitempty"`
	Plugin    string                  `json:"plugin,omitempty"`
	Operation volumemanager.Operation `json:"operation"`
	Outcome   volumemanager.Outcome   `json:"outcome"`
	Error     string                  `json:"error,omitempty"`
	Warnings  []string                `json:"warnings,omitempty"`
	NextTry   time.Time               `json:"nextTry,omitzero"`
}

func (r *recentEvents) add(e volumemanager.Event) {
	if e.Operation == volumemanager.OperationVerify && e.Outcome == volumemanager.OutcomeSucceeded {
		return
	}
	shown := recentEvent{Time: e.Time, Seconds: e.Duration.Seconds(), Namespace: e.Namespace, Name: e.Name, UID: e.UID, Volume: e.Volume,
		Plugin: e.Plugin, Operation: e.Operation, Outcome: e.Outcome, Error: reason(e.Err), Warnings: e.Warnings, NextTry: e.NextTry}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring[r.count%recentKept] = shown
	r.count++
}

// newestFirst returns a copy of all that is remembered.
func (r *recentEvents) newestFirst() []recentEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := make([]recentEvent, 0, min(r.count, recentKept))
	for i := range cap(events) {
		events = append(events, r.ring[(r.count-1-i)%recentKept])
	}
	return events
}

// reason is the text of an error without the names that stand beside it anyway.
func reason(err error) string {
	return (&volumemanager.VolumeStatus{Err: err}).Reason()
}
