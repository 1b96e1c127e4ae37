// SPDX-License-Identifier: Apache-2.0

package statushttp

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volumemanager"
)

// usageGauge is a number that tells how full each volume is.
type usageGauge struct {
	desc  *prometheus.Desc
	value func(*volume.Metrics, volumemanager.Status) float64
}

var usageLabels = []string{"namespace", "pod", "volume"}

func newUsageGauge(name, help string, value func(*volume.Metrics, volumemanager.Status) float64) usageGauge {
	return usageGauge{desc: prometheus.NewDesc("volumekit_volume_"+name, help, usageLabels, nil), value: value}
}

var usageGauges = []usageGauge{
	newUsageGauge("used_bytes", "What the volume's files occupy.",
		func(m *volume.Metrics, _ volumemanager.Status) float64 { return float64(m.Used) }),
	newUsageGauge("limit_bytes", "What bounds the volume, 0 if nothing does.",
		func(m *volume.Metrics, _ volumemanager.Status) float64 { return float64(m.Limit) }),
	newUsageGauge("capacity_bytes", "The size of the file system that holds the volume.",
		func(m *volume.Metrics, _ volumemanager.Status) float64 { return float64(m.Capacity) }),
	newUsageGauge("available_bytes", "What is left of the file system that holds the volume.",
		func(m *volume.Metrics, _ volumemanager.Status) float64 { return float64(m.Available) }),
	newUsageGauge("inodes_used", "The number of the volume's files.",
		func(m *volume.Metrics, _ volumemanager.Status) float64 { return float64(m.InodesUsed) }),
	newUsageGauge("usage_age_seconds", "How long ago it was measured how full the volume is.",
		func(m *volume.Metrics, s volumemanager.Status) float64 { return s.Time.Sub(m.Time).Seconds() }),
}

// collectUsage sends the numbers of the volumes that have been measured.
func collectUsage(metrics chan<- prometheus.Metric, status volumemanager.Status) {
	for i := range status.Pods {
		pod := &status.Pods[i]
		for j := range pod.Volumes {
			v := &pod.Volumes[j]
			if v.Metrics == nil || pod.Name == "" {
				continue
			}
			for _, gauge := range usageGauges {
				metrics <- prometheus.MustNewConstMetric(gauge.desc, prometheus.GaugeValue, gauge.value(v.Metrics, status),
					label(pod.Namespace), label(pod.Name), label(v.Name))
			}
		}
	}
}
