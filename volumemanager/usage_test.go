// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	"github.com/volumekit/volumekit/volumemanager"
)

// measuredPlugin serves emptyDir volumes that can be measured.
type measuredPlugin struct {
	*volumetest.FakePlugin
	measured atomic.Int64
	err      atomic.Pointer[error]
}

func (p *measuredPlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	m, err := p.FakePlugin.NewMounter(spec, pod)
	return &measuredMounter{Mounter: m, plugin: p}, err
}

type measuredMounter struct {
	volume.Mounter
	plugin *measuredPlugin
}

func (m *measuredMounter) Metrics(context.Context) (volume.Metrics, error) {
	if err := m.plugin.err.Load(); err != nil {
		return volume.Metrics{}, *err
	}
	return volume.Metrics{Time: time.Now(), Used: m.plugin.measured.Add(1)}, nil
}

func TestHowFullVolumesAreIsMeasuredFromTimeToTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := &measuredPlugin{FakePlugin: &volumetest.FakePlugin{}}
		options := volumemanager.Options{Usage: volumemanager.UsageOptions{Skip: func(pod types.NamespacedName, volume string) bool {
			return pod.Name == "web" && volume == "skipped"
		}}}
		b := openRigWith(t, options, unmounted(t.TempDir()), plugin)
		stop := b.run()
		require.NoError(t, b.SetPods(t.Context(), []*v1.Pod{pod("web", emptyDir("cache"), emptyDir("skipped"))}))
		b.requireReady("uid-web")
		synctest.Wait()
		volumes := b.Status().Pods[0].Volumes
		require.NotNil(t, volumes[0].Metrics)
		assert.EqualValues(t, 1, volumes[0].Metrics.Used)
		assert.Nil(t, volumes[1].Metrics)

		time.Sleep(10 * time.Minute)
		synctest.Wait()
		volumes = b.Status().Pods[0].Volumes
		assert.InDelta(t, 11, volumes[0].Metrics.Used, 2)
		assert.WithinRange(t, volumes[0].Metrics.Time, time.Now().Add(-2*time.Minute), time.Now())

		broken := errors.New("the server is away")
		plugin.err.Store(&broken)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		volumes = b.Status().Pods[0].Volumes
		assert.NotNil(t, volumes[0].Metrics, "the last that is known")
		assert.Equal(t, broken, volumes[0].MetricsErr)

		plugin.err.Store(nil)
		require.NoError(t, b.SetPods(t.Context(), nil))
		synctest.Wait()
		measured := plugin.measured.Load()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.Equal(t, measured, plugin.measured.Load(), "what is gone is not measured")
		stop()
	})
}

func TestMeasuringCanBeSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := &measuredPlugin{FakePlugin: &volumetest.FakePlugin{}}
		b := openRigWith(t, volumemanager.Options{Usage: volumemanager.UsageOptions{Off: true}}, unmounted(t.TempDir()), plugin)
		b.run()
		require.NoError(t, b.SetPod(t.Context(), pod("web", emptyDir("cache"))))
		b.requireReady("uid-web")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.Zero(t, plugin.measured.Load())
	})
}
