// SPDX-License-Identifier: Apache-2.0

package statushttp

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/volumekit/volumekit/volumemanager"
)

// Collector returns the metrics of the manager, for a registry of the embedding program's own; /metrics serves the same. It
// may be registered in several. All names begin with volumekit_. Gauges are computed from [volumemanager.Manager.Status] when
// they are asked for; counters and histograms count from [New] to [Handler.Close]. No label has the name of a pod or a
// volume, so their number stays that of the plugins.
func (h *Handler) Collector() prometheus.Collector { return &collector{h} }

type collector struct{ h *Handler }

// The gauges.
var (
	managerRunning = prometheus.NewDesc("volumekit_manager_running",
		"Whether the manager closes the difference between what is wanted and what is there (1) or not (0).", nil, nil)
	managerRecovered = prometheus.NewDesc("volumekit_manager_recovered",
		"Whether what an earlier run left has been taken over (1) or not (0).", nil, nil)
	managerComplete = prometheus.NewDesc("volumekit_manager_complete",
		"Whether all wanted pods have been told, so that the volumes of others may go (1), or not (0).", nil, nil)
	podsDesc = prometheus.NewDesc("volumekit_pods",
		"Pods that are wanted, and those that are leaving: not wanted any more, but with volumes that are still to go.", []string{"state"}, nil)
	podsFailing = prometheus.NewDesc("volumekit_pods_failing",
		"Pods that need attention: they, one of their volumes or one of their mounts failed.", nil, nil)
	volumesDesc = prometheus.NewDesc("volumekit_volumes",
		"Volumes by plugin (empty if none serves the volume) and state: mounted, pending or failed.", []string{"plugin", "state"}, nil)
	volumesRetrying = prometheus.NewDesc("volumekit_volumes_retrying",
		"Volumes whose last attempt failed.", []string{"plugin"}, nil)
	operationsRunning = prometheus.NewDesc("volumekit_operations_running",
		"Operations on volumes that are under way, the abandoned ones included.", []string{"plugin", "operation"}, nil)
	operationsAbandoned = prometheus.NewDesc("volumekit_operations_abandoned",
		"Operations on volumes whose deadline has passed although the plugin has not returned.", []string{"plugin", "operation"}, nil)
	operationOldest = prometheus.NewDesc("volumekit_operation_oldest_age_seconds",
		"How long ago the oldest operation that is under way was begun, 0 if there is none.", nil, nil)
)

// Describe sends the descriptions of all metrics.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{managerRunning, managerRecovered, managerComplete, podsDesc, podsFailing, volumesDesc,
		volumesRetrying, operationsRunning, operationsAbandoned, operationOldest} {
		descs <- desc
	}
	for _, gauge := range usageGauges {
		descs <- gauge.desc
	}
	c.h.metrics.describe(descs)
}

// Collect sends all metrics as they are now.
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	status := c.h.source.Status()
	sums := sumUp(status)
	gauge(managerRunning, oneIf(status.Running))
	gauge(managerRecovered, oneIf(status.Recovered))
	gauge(managerComplete, oneIf(status.Complete))
	total := count(status)
	gauge(podsDesc, float64(total.Pods-total.Leaving), "wanted")
	gauge(podsDesc, float64(total.Leaving), "leaving")
	gauge(podsFailing, float64(total.Attention))
	for of, n := range sums.volumes {
		gauge(volumesDesc, float64(n), of.plugin, of.what)
	}
	for plugin, n := range sums.retrying {
		gauge(volumesRetrying, float64(n), plugin)
	}
	for of, n := range sums.running {
		gauge(operationsRunning, float64(n), of.plugin, of.what)
		gauge(operationsAbandoned, float64(sums.abandoned[of]), of.plugin, of.what)
	}
	gauge(operationOldest, sums.oldest.Seconds())
	collectUsage(metrics, status)
	c.h.metrics.collect(metrics)
}

// sums are what the gauges show of volumes.
type sums struct {
	volumes            map[pluginAnd]int // a state
	retrying           map[string]int    // by plugin
	running, abandoned map[pluginAnd]int // an operation
	oldest             time.Duration
}

type pluginAnd struct{ plugin, what string }

func sumUp(status volumemanager.Status) sums {
	s := sums{volumes: map[pluginAnd]int{}, retrying: map[string]int{}, running: map[pluginAnd]int{}, abandoned: map[pluginAnd]int{}}
	for i := range status.Pods {
		for j := range status.Pods[i].Volumes {
			s.add(&status.Pods[i].Volumes[j], status.Time)
		}
	}
	return s
}

func (s *sums) add(v *volumemanager.VolumeStatus, now time.Time) {
	plugin := label(v.Plugin)
	// Every state of a plugin that has volumes is there, so that a graph has no gaps.
	for _, state := range []volumemanager.VolumeState{volumemanager.Mounted, volumemanager.Pending, volumemanager.Failed} {
		s.volumes[pluginAnd{plugin, string(state)}] += 0
	}
	s.volumes[pluginAnd{plugin, string(v.State)}]++
	s.retrying[plugin] += 0
	if v.Failures > 0 {
		s.retrying[plugin]++
	}
	if v.Running == nil {
		return
	}
	of := pluginAnd{plugin, string(v.Running.Operation)}
	s.running[of]++
	if v.Running.Abandoned {
		s.abandoned[of]++
	}
	s.oldest = max(s.oldest, now.Sub(v.Running.Since))
}

// operationMetrics count the operations that have ended.
type operationMetrics struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	lost     prometheus.Counter
}

func newOperationMetrics() *operationMetrics {
	labels := []string{"plugin", "operation", "outcome"}
	return &operationMetrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "volumekit_operations_total",
			Help: "Operations that have ended, by plugin (empty for what concerns a pod as a whole), operation and outcome: succeeded, failed or uncertain.",
		}, labels),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "volumekit_operation_duration_seconds",
			Help: "How long operations took that have ended.",
			// From a tmpfs, which takes less than a millisecond, to an operation that runs into its deadline of minutes.
			Buckets: []float64{0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 120, 300},
		}, labels),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "volumekit_events_lost_total",
			Help: "Operations that ended without being counted, because there were too many at once.",
		}),
	}
}

func (m *operationMetrics) observe(e volumemanager.Event) {
	labels := []string{label(e.Plugin), label(string(e.Operation)), label(string(e.Outcome))}
	m.total.WithLabelValues(labels...).Inc()
	m.duration.WithLabelValues(labels...).Observe(e.Duration.Seconds())
	m.lost.Add(float64(e.Lost))
}

func (m *operationMetrics) describe(descs chan<- *prometheus.Desc) {
	m.total.Describe(descs)
	m.duration.Describe(descs)
	m.lost.Describe(descs)
}

func (m *operationMetrics) collect(metrics chan<- prometheus.Metric) {
	m.total.Collect(metrics)
	m.duration.Collect(metrics)
	m.lost.Collect(metrics)
}

// label makes a label's value of a name that may come from a directory on disk: those may hold any bytes, labels only UTF-8.
func label(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
