// SPDX-License-Identifier: Apache-2.0

package statushttp

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/volumemanager"
)

func TestTheStateIsTheStatusWithAnOverview(t *testing.T) {
	f := newFakeManager(troubled())
	h := newTestHandler(t, f, Options{Notices: func() []string { return []string{"web.yaml cannot be read"} }})
	f.events <- volumemanager.Event{Time: now, Duration: 1500 * time.Millisecond, Namespace: "shop", Name: "web-0", UID: "uid-a", Volume: "data", Plugin: nfs,
		Operation: volumemanager.OperationSetUp, Outcome: volumemanager.OutcomeUncertain, Err: errors.New("no answer"), NextTry: now.Add(time.Second)}
	h.Close()

	var state map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(get(h, "/state").Body.Bytes(), &state))
	overview := state["overview"]
	delete(state, "overview")
	rest, err := json.Marshal(state)
	require.NoError(t, err)
	status, err := json.Marshal(troubled())
	require.NoError(t, err)
	assert.JSONEq(t, string(status), string(rest))
	assert.JSONEq(t, `{
		"headline": "1 pod of 3 needs attention", "tone": "bad",
		"notices": ["web.yaml cannot be read"],
		"totals": {"pods": 3, "leaving": 1, "volumes": 5, "mounted": 2, "pending": 2, "failed": 1, "running": 2, "abandoned": 1, "attention": 1},
		"events": [{"time": "2026-12-01T10:30:00Z", "durationSeconds": 1.5, "namespace": "shop", "name": "web-0", "uid": "uid-a", "volume": "data",
			"plugin": "kubernetes.io/nfs", "operation": "set up", "outcome": "uncertain", "error": "no answer", "nextTry": "2026-12-01T10:30:01Z"}]
	}`, string(overview))
}

func TestListsInTheOverviewAreNeverNull(t *testing.T) {
	var state struct{ Overview map[string]any }
	require.NoError(t, json.Unmarshal(get(newTestHandler(t, newFakeManager(atWork()), Options{}), "/state").Body.Bytes(), &state))
	assert.Equal(t, []any{}, state.Overview["notices"])
	assert.Equal(t, []any{}, state.Overview["events"])
}

func TestTheHeadlineSaysTheWorst(t *testing.T) {
	volumes := func(states ...volumemanager.VolumeState) volumemanager.PodStatus {
		pod := volumemanager.PodStatus{UID: "uid"}
		for _, state := range states {
			pod.Volumes = append(pod.Volumes, volumemanager.VolumeStatus{State: state})
		}
		return pod
	}
	stopped, recovering := troubled(), troubled()
	stopped.Running, recovering.Recovered = false, false
	for want, status := range map[string]volumemanager.Status{
		"The volume manager is not running":    stopped,
		"Taking over what an earlier run left": recovering,
		"1 pod of 3 needs attention":           troubled(),
		"2 pods of 3 need attention":           atWork(volumes(volumemanager.Failed), volumes(), volumes(volumemanager.Mounted, volumemanager.Failed)),
		"1 volume on the way":                  atWork(volumes(volumemanager.Mounted, volumemanager.Pending)),
		"2 volumes of 1 pod in place":          atWork(volumes(volumemanager.Mounted, volumemanager.Mounted)),
		"No pods":                              atWork(),
	} {
		sentence, _ := headline(status, count(status))
		assert.Equal(t, want, sentence)
	}
}

func TestRecentEventsAreBoundedAndTheNewestIsFirst(t *testing.T) {
	var r recentEvents
	assert.Empty(t, r.newestFirst())
	for i := range 3*recentKept + 7 {
		r.add(volumemanager.Event{Volume: fmt.Sprint(i), Operation: volumemanager.OperationSetUp, Outcome: volumemanager.OutcomeSucceeded})
		r.add(volumemanager.Event{Volume: "in order", Operation: volumemanager.OperationVerify, Outcome: volumemanager.OutcomeSucceeded})
	}
	r.add(volumemanager.Event{Volume: "not in order", Operation: volumemanager.OperationVerify, Outcome: volumemanager.OutcomeFailed})
	events := r.newestFirst()
	assert.Len(t, events, recentKept)
	assert.Equal(t, "not in order", events[0].Volume)
	assert.Equal(t, fmt.Sprint(3*recentKept+6), events[1].Volume)
	assert.Equal(t, fmt.Sprint(2*recentKept+8), events[recentKept-1].Volume)
}
