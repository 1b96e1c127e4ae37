// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	"github.com/volumekit/volumekit/volumemanager"
)

// followingPlugin serves configMap and downwardAPI volumes, whose content is not its business.
type followingPlugin struct {
	*volumetest.FakePlugin
	lifetime time.Duration // of what is in a volume, zero if it does not expire
}

func newFollowingPlugin() *followingPlugin {
	return &followingPlugin{FakePlugin: &volumetest.FakePlugin{PluginName: "test/following",
		Serves: []volume.Source{{Type: volume.SourceConfigMap}, {Type: volume.SourceDownwardAPI}}}}
}

func (p *followingPlugin) RequiresRemount(*volume.Spec) bool { return true }

func (p *followingPlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	m, err := p.FakePlugin.NewMounter(spec, pod)
	var references []volume.Reference
	if spec.Volume.ConfigMap != nil {
		references = append(references, volume.Reference{Kind: volume.KindConfigMap, Namespace: pod.Namespace, Name: spec.Volume.ConfigMap.Name})
	}
	return &followingMounter{Mounter: m, references: references, lifetime: p.lifetime}, err
}

type followingMounter struct {
	volume.Mounter
	references []volume.Reference
	lifetime   time.Duration
	setUp      time.Time
}

func (m *followingMounter) SetUp(ctx context.Context, options volume.SetUpOptions) error {
	m.setUp = time.Now()
	return m.Mounter.SetUp(ctx, options)
}

func (m *followingMounter) References() []volume.Reference { return m.references }

func (m *followingMounter) RefreshTime() time.Time {
	if m.lifetime == 0 {
		return time.Time{}
	}
	return m.setUp.Add(m.lifetime)
}

// configMaps is a source of ConfigMaps of which nobody wants the content.
type configMaps struct{ *claims }

func (configMaps) ConfigMap(context.Context, string, string) (*v1.ConfigMap, error) {
	return &v1.ConfigMap{}, nil
}

func (c configMaps) changed(name string) {
	c.change(volume.Reference{Kind: volume.KindConfigMap, Namespace: "default", Name: name}, func() {})
}

func configMap(name string) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}}}
}

// following is a manager that runs in a bubble of package synctest.
func following(t *testing.T, plugin *followingPlugin) (*rig, configMaps) {
	source := configMaps{newClaims()}
	host := unmounted(t.TempDir())
	host.ConfigMaps = source
	return openRigWith(t, volumemanager.Options{}, host, plugin), source
}

func TestAVolumeIsRefreshedWhenAnObjectChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := newFollowingPlugin()
		b, source := following(t, plugin)
		b.run()
		require.NoError(t, b.SetPods(t.Context(), []*v1.Pod{pod("web", configMap("a"), configMap("b"))}))
		b.requireReady("uid-web")
		time.Sleep(time.Hour)
		synctest.Wait()
		before := len(plugin.CallsOf(volumetest.SetUp))
		assert.Equal(t, 2+2*6, before, "once, and with each full pass")

		source.changed("a")
		source.changed("somebody else's")
		synctest.Wait()
		calls := plugin.CallsOf(volumetest.SetUp)[before:]
		require.Len(t, calls, 1)
		assert.Equal(t, "a", calls[0].Volume)

		require.NoError(t, b.SetPods(t.Context(), nil))
		synctest.Wait()
		assert.Empty(t, source.watchers)
	})
}

func TestAChangeDuringSetUpIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := newFollowingPlugin()
		b, source := following(t, plugin)
		var once sync.Once
		plugin.Inject(volumetest.SetUp, volumetest.Hooks{After: func(context.Context, volumetest.Call) error {
			once.Do(func() { source.changed("a") })
			return nil
		}})
		b.run()
		require.NoError(t, b.SetPod(t.Context(), pod("web", configMap("a"))))
		b.requireReady("uid-web")
		synctest.Wait()
		assert.Len(t, plugin.CallsOf(volumetest.SetUp), 2)
	})
}

func TestWhatAnObjectWasMissingForIsTriedAtOnceWhenItAppears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := newFollowingPlugin()
		b, source := following(t, plugin)
		var there atomic.Bool
		plugin.Inject(volumetest.SetUp, volumetest.Hooks{Before: func(context.Context, volumetest.Call) error {
			if !there.Load() {
				return volume.Errorf(volume.ErrNotFound, "no such ConfigMap")
			}
			return nil
		}})
		b.run()
		require.NoError(t, b.SetPod(t.Context(), pod("web", configMap("a"))))
		time.Sleep(time.Hour)
		synctest.Wait()
		appeared := time.Now()
		there.Store(true)
		source.changed("a")
		b.requireReady("uid-web")
		assert.Equal(t, appeared, time.Now())
	})
}

func TestAVolumeIsRefreshedBeforeWhatIsInItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := newFollowingPlugin()
		plugin.lifetime = 3 * time.Minute
		b, _ := following(t, plugin)
		b.run()
		require.NoError(t, b.SetPod(t.Context(), pod("web", configMap("a"))))
		b.requireReady("uid-web")
		time.Sleep(9*time.Minute + time.Second)
		synctest.Wait()
		assert.Len(t, plugin.CallsOf(volumetest.SetUp), 1+3)
	})
}

func TestAVolumeWhoseObjectsCannotBeWatchedIsRefreshedFromTimeToTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := newFollowingPlugin()
		host := unmounted(t.TempDir())
		b := openRigWith(t, volumemanager.Options{Resync: 24 * time.Hour}, host, plugin)
		b.run()
		shown := v1.Volume{Name: "labels", VolumeSource: v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{}}}
		require.NoError(t, b.SetPod(t.Context(), pod("web", configMap("a"), shown)))
		b.requireReady("uid-web")
		time.Sleep(time.Hour)
		synctest.Wait()
		refreshes := 0
		for _, call := range plugin.CallsOf(volumetest.SetUp) {
			if call.Volume == "a" {
				refreshes++
			}
		}
		assert.Less(t, refreshes, 62)
		assert.Greater(t, refreshes, 39)
		assert.Len(t, plugin.CallsOf(volumetest.SetUp), refreshes+1, "what depends on the pod alone is not")
	})
}

func TestAVolumeThatCannotBeRefreshedStaysAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := newFollowingPlugin()
		b, source := following(t, plugin)
		b.run()
		require.NoError(t, b.SetPod(t.Context(), pod("web", configMap("a"))))
		b.requireReady("uid-web")
		plugin.Inject(volumetest.SetUp, volumetest.Hooks{Before: volumetest.FailTimes(3, errors.New("out of luck"))})
		source.changed("a")
		synctest.Wait()
		status := b.requireReady("uid-web")
		assert.Equal(t, volumemanager.Mounted, status.Volumes[0].State)
		assert.Equal(t, []string{"since it was set up: refresh: out of luck"}, status.Volumes[0].Warnings)

		time.Sleep(5 * time.Second) // it is tried again by itself
		synctest.Wait()
		assert.Empty(t, b.requireReady("uid-web").Volumes[0].Warnings)
		assert.Len(t, plugin.CallsOf(volumetest.SetUp), 5)
	})
}

func TestAVolumeThatShowsThePodIsRefreshedWhenThePodChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := newFollowingPlugin()
		b, _ := following(t, plugin)
		b.run()
		labelled := func(label string, volumes ...v1.Volume) *v1.Pod {
			p := pod("web", volumes...)
			p.Labels = map[string]string{"canary": label}
			return p
		}
		shown := v1.Volume{Name: "labels", VolumeSource: v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{}}}
		require.NoError(t, b.SetPod(t.Context(), labelled("one", shown)))
		b.requireReady("uid-web")
		require.NoError(t, b.SetPod(t.Context(), labelled("one", shown)))
		synctest.Wait()
		assert.Len(t, plugin.CallsOf(volumetest.SetUp), 1)
		require.NoError(t, b.SetPod(t.Context(), labelled("two", shown)))
		synctest.Wait()
		assert.Len(t, plugin.CallsOf(volumetest.SetUp), 2)
		assert.NotContains(t, b.record("uid-web"), "canary")

		require.NoError(t, b.SetPod(t.Context(), labelled("two", configMap("a"))))
		b.requireReady("uid-web")
		synctest.Wait()
		before := len(plugin.CallsOf(volumetest.SetUp))
		require.NoError(t, b.SetPod(t.Context(), labelled("three", configMap("a"))))
		synctest.Wait()
		assert.Len(t, plugin.CallsOf(volumetest.SetUp), before, "no volume shows it")
	})
}

func TestNothingIsWatchedOnceRunHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, source := following(t, newFollowingPlugin())
		stop := b.run()
		require.NoError(t, b.SetPod(t.Context(), pod("web", configMap("a"))))
		b.requireReady("uid-web")
		assert.Len(t, source.watchers, 1)
		stop()
		assert.Empty(t, source.watchers)
		source.changed("a")

		b.run()
		synctest.Wait()
		assert.Len(t, source.watchers, 1, "and again when it runs again")
	})
}

func TestAVolumeThatCouldNotBeRefreshedGoesWithABackoffToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := newFollowingPlugin()
		b, source := following(t, plugin)
		b.run()
		require.NoError(t, b.SetPod(t.Context(), pod("web", configMap("a"))))
		b.requireReady("uid-web")
		plugin.Inject(volumetest.SetUp, volumetest.Hooks{Before: volumetest.Fail(errors.New("out of luck"))})
		plugin.Inject(volumetest.TearDown, volumetest.Hooks{Before: volumetest.FailTimes(1000, errors.New("out of luck"))})
		source.changed("a")
		synctest.Wait()
		require.NoError(t, b.RemovePod("uid-web"))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.Less(t, len(plugin.CallsOf(volumetest.TearDown)), 14)
		plugin.Inject(volumetest.TearDown, volumetest.Hooks{})
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		b.requireEmpty()
	})
}
