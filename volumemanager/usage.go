// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
)

// UsageOptions say how it is measured how full volumes are, which [Manager.Status] tells. The zero value measures every volume whose
// plugin can (see [volume.MetricsProvider]) about once a minute. One volume is measured at a time, with pauses that keep it to about a
// tenth of one core: where there is much to walk, less often.
type UsageOptions struct {
	// Off measures nothing.
	Off bool

	// Period is about how often a volume is measured that takes little. Zero stands for a minute.
	Period time.Duration

	// Skip tells of a volume, by its name in the pod, that it is not to be measured. It returns at once, and may be nil.
	Skip func(pod types.NamespacedName, volume string) bool
}

// runMeter measures volumes until ctx ends, or stop is called.
func (m *Manager) runMeter(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { m.meter.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// measure has the volume measured from now on if it is there, and no more if it is not. mu is locked.
func (p *managedPod) measure(v *managedVolume) {
	provider := p.provider(v)
	switch {
	case provider == v.measured:
	case provider == nil:
		v.measured = nil
		p.m.meter.Remove(v)
	default:
		v.measured = provider
		p.m.meter.Add(v, provider.Metrics)
	}
}

// provider returns what measures the volume, nil if it is not there, or is not measured. mu is locked.
func (p *managedPod) provider(v *managedVolume) volume.MetricsProvider {
	if !p.m.running || p.m.options.Usage.Off || !v.there || v.wanted == nil {
		return nil
	}
	provider, ok := v.wanted.mounter.(volume.MetricsProvider)
	if !ok || p.m.options.Usage.Skip != nil && p.m.options.Usage.Skip(types.NamespacedName{Namespace: p.wanted.Namespace, Name: p.wanted.Name}, v.name) {
		return nil
	}
	return provider
}

// metrics returns what is known of how full the volume is. mu is locked.
func (p *managedPod) metrics(v *managedVolume) (*volume.Metrics, error) {
	if v.measured == nil {
		return nil, nil
	}
	last, ok := p.m.meter.Last(v)
	if !ok || last.Time.IsZero() {
		return nil, last.Err
	}
	return &last.Value, last.Err
}
