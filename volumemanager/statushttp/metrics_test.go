// SPDX-License-Identifier: Apache-2.0

package statushttp

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/volumemanager"
)

func TestGaugesShowTheStatus(t *testing.T) {
	h := newTestHandler(t, newFakeManager(troubled()), Options{})
	const want = `
# HELP volumekit_operation_oldest_age_seconds How long ago the oldest operation that is under way was begun, 0 if there is none.
# TYPE volumekit_operation_oldest_age_seconds gauge
volumekit_operation_oldest_age_seconds 300
# HELP volumekit_operations_abandoned Operations on volumes whose deadline has passed although the plugin has not returned.
# TYPE volumekit_operations_abandoned gauge
volumekit_operations_abandoned{operation="set up",plugin="kubernetes.io/nfs"} 1
volumekit_operations_abandoned{operation="tear down",plugin="kubernetes.io/empty-dir"} 0
# HELP volumekit_operations_running Operations on volumes that are under way, the abandoned ones included.
# TYPE volumekit_operations_running gauge
volumekit_operations_running{operation="set up",plugin="kubernetes.io/nfs"} 1
volumekit_operations_running{operation="tear down",plugin="kubernetes.io/empty-dir"} 1
# HELP volumekit_pods Pods that are wanted, and those that are leaving: not wanted any more, but with volumes that are still to go.
# TYPE volumekit_pods gauge
volumekit_pods{state="leaving"} 1
volumekit_pods{state="wanted"} 2
# HELP volumekit_pods_failing Pods that need attention: they, one of their volumes or one of their mounts failed.
# TYPE volumekit_pods_failing gauge
volumekit_pods_failing 1
# HELP volumekit_volumes Volumes by plugin (empty if none serves the volume) and state: mounted, pending or failed.
# TYPE volumekit_volumes gauge
volumekit_volumes{plugin="",state="failed"} 1
volumekit_volumes{plugin="",state="mounted"} 0
volumekit_volumes{plugin="",state="pending"} 0
volumekit_volumes{plugin="kubernetes.io/empty-dir",state="failed"} 0
volumekit_volumes{plugin="kubernetes.io/empty-dir",state="mounted"} 1
volumekit_volumes{plugin="kubernetes.io/empty-dir",state="pending"} 1
volumekit_volumes{plugin="kubernetes.io/host-path",state="failed"} 0
volumekit_volumes{plugin="kubernetes.io/host-path",state="mounted"} 1
volumekit_volumes{plugin="kubernetes.io/host-path",state="pending"} 0
volumekit_volumes{plugin="kubernetes.io/nfs",state="failed"} 0
volumekit_volumes{plugin="kubernetes.io/nfs",state="mounted"} 0
volumekit_volumes{plugin="kubernetes.io/nfs",state="pending"} 1
# HELP volumekit_volumes_retrying Volumes whose last attempt failed.
# TYPE volumekit_volumes_retrying gauge
volumekit_volumes_retrying{plugin=""} 1
volumekit_volumes_retrying{plugin="kubernetes.io/empty-dir"} 0
volumekit_volumes_retrying{plugin="kubernetes.io/host-path"} 0
volumekit_volumes_retrying{plugin="kubernetes.io/nfs"} 0
`
	require.NoError(t, testutil.CollectAndCompare(h.Collector(), strings.NewReader(want), "volumekit_operation_oldest_age_seconds",
		"volumekit_operations_abandoned", "volumekit_operations_running", "volumekit_pods", "volumekit_pods_failing", "volumekit_volumes",
		"volumekit_volumes_retrying"))
}

func TestOperationsAreCountedByPluginOperationAndOutcome(t *testing.T) {
	f := newFakeManager(atWork())
	h := newTestHandler(t, f, Options{})
	e := volumemanager.Event{Name: "web-0", Volume: "data", Plugin: nfs, Operation: volumemanager.OperationSetUp, Outcome: volumemanager.OutcomeFailed, Duration: 20 * time.Second}
	f.events <- e
	f.events <- e
	e.Outcome, e.Duration, e.Lost = volumemanager.OutcomeSucceeded, 40*time.Millisecond, 5
	f.events <- e
	h.Close()
	const want = `
# HELP volumekit_events_lost_total Operations that ended without being counted, because there were too many at once.
# TYPE volumekit_events_lost_total counter
volumekit_events_lost_total 5
# HELP volumekit_operations_total Operations that have ended, by plugin (empty for what concerns a pod as a whole), operation and outcome: succeeded, failed or uncertain.
# TYPE volumekit_operations_total counter
volumekit_operations_total{operation="set up",outcome="failed",plugin="kubernetes.io/nfs"} 2
volumekit_operations_total{operation="set up",outcome="succeeded",plugin="kubernetes.io/nfs"} 1
`
	require.NoError(t, testutil.CollectAndCompare(h.Collector(), strings.NewReader(want), "volumekit_events_lost_total", "volumekit_operations_total"))
	text := get(h, "/metrics").Body.String()
	assert.Contains(t, text, `volumekit_operation_duration_seconds_bucket{operation="set up",outcome="failed",plugin="kubernetes.io/nfs",le="10"} 0`)
	assert.Contains(t, text, `volumekit_operation_duration_seconds_bucket{operation="set up",outcome="failed",plugin="kubernetes.io/nfs",le="30"} 2`)
	assert.Contains(t, text, `volumekit_operation_duration_seconds_sum{operation="set up",outcome="failed",plugin="kubernetes.io/nfs"} 40`)
}

func TestMetricsFollowPrometheusConventionsAndNameNoPodButForHowFullItsVolumesAre(t *testing.T) {
	f := newFakeManager(troubled())
	h := newTestHandler(t, f, Options{})
	f.events <- volumemanager.Event{Namespace: "shop", Name: "web-0", UID: "uid-a", Volume: "data", Plugin: nfs, Operation: volumemanager.OperationSetUp, Outcome: volumemanager.OutcomeFailed}
	h.Close()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(h.Collector()), "an embedder's registry, beside the handler's own")
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	assert.Empty(t, problems)
	for line := range strings.Lines(get(h, "/metrics").Body.String()) {
		for _, name := range []string{"web-0", "uid-a", "data", "shop"} {
			assert.False(t, strings.Contains(line, name) && !strings.HasPrefix(line, "volumekit_volume_"), line)
		}
	}
}

func TestAPluginNameThatIsNoUTF8DoesNotEndTheMetrics(t *testing.T) {
	const name = "example.com~\xff"
	f := newFakeManager(atWork(volumemanager.PodStatus{UID: "uid", Volumes: []volumemanager.VolumeStatus{
		{Plugin: name, State: volumemanager.Pending}, {Plugin: "example.com~\xfe", State: volumemanager.Pending}}}))
	h := newTestHandler(t, f, Options{})
	f.events <- volumemanager.Event{Plugin: name, Operation: volumemanager.OperationTearDown, Outcome: volumemanager.OutcomeFailed}
	h.Close()
	answer := get(h, "/metrics")
	assert.Equal(t, http.StatusOK, answer.Code)
	assert.Contains(t, answer.Body.String(), "volumekit_volumes{plugin=\"example.com~\uFFFD\",state=\"pending\"} 2")
}
