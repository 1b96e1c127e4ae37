// SPDX-License-Identifier: Apache-2.0

package volume_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// announcingClock stands still, and tells of each pause when it begins.
type announcingClock struct {
	*clocktesting.FakeClock
	pauses chan time.Duration
}

func newAnnouncingClock() *announcingClock {
	return &announcingClock{clocktesting.NewFakeClock(time.Unix(0, 0)), make(chan time.Duration, 100)}
}

func (c *announcingClock) NewTimer(d time.Duration) clock.Timer {
	timer := c.FakeClock.NewTimer(d)
	c.pauses <- d
	return timer
}

// end waits for the next pause, ends it, and returns how long it would have been.
func (c *announcingClock) end() time.Duration {
	pause := <-c.pauses
	c.Step(pause)
	return pause
}

// reports hears what goes wrong with dynamic plugins, one "plugin: error" after the other.
type reports chan string

func (r reports) option() volume.Option {
	return volume.WithProbeErrors(func(plugin string, err error) { r <- fmt.Sprintf("%s: %v", plugin, err) })
}

func newProbed(t *testing.T, clock clock.WithTicker, options ...volume.Option) *volume.VolumePluginMgr {
	t.Helper()
	host := volume.Host{Root: t.TempDir(), Clock: clock}
	mgr, err := volume.NewVolumePluginMgr(t.Context(), host, nil, options...)
	require.NoError(t, err)
	t.Cleanup(mgr.Close)
	return mgr
}

// eventually waits for what no event tells of.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, time.Minute, time.Millisecond, what)
}

func inUse(mgr *volume.VolumePluginMgr, want volume.VolumePlugin) func() bool {
	return func() bool {
		found, err := mgr.FindPluginByName(want.Name())
		return err == nil && found == want
	}
}

// doubling are the pauses between tries: from a tenth of a second to a minute.
var doubling = []time.Duration{
	100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond,
	3200 * time.Millisecond, 6400 * time.Millisecond, 12800 * time.Millisecond, 25600 * time.Millisecond, 51200 * time.Millisecond,
	time.Minute, time.Minute,
}

func TestThePausesBetweenTriesOfAPluginDouble(t *testing.T) {
	clock, heard, prober := newAnnouncingClock(), make(reports, 100), make(volumetest.FakeProber)
	mgr := newProbed(t, clock, volume.WithProber(prober), heard.option())
	plugin := flexDriver("failing")
	plugin.Inject(volumetest.Init, volumetest.Hooks{Before: volumetest.FailTimes(len(doubling), errors.New("not yet"))})
	prober <- volumetest.Found(plugin)
	for i, want := range doubling {
		assert.Equal(t, want, clock.end(), "pause %d", i+1)
	}
	assert.Equal(t, "example.com/failing: not yet", <-heard)
	assert.Equal(t, "example.com/failing: <nil>", <-heard)
	assert.True(t, inUse(mgr, plugin)())
	assert.Len(t, plugin.CallsOf(volumetest.Init), len(doubling)+1)
}

func TestThePausesOfAProberThatFailsDoubleAndBeginAnewWhenItWorks(t *testing.T) {
	clock, heard, prober := newAnnouncingClock(), make(reports, 100), make(volumetest.FakeProber)
	newProbed(t, clock, volume.WithProber(prober), heard.option())
	cause := errors.New("no such directory")
	for range 2 {
		for i, want := range doubling {
			prober <- volumetest.ProbeAnswer{Err: cause}
			assert.Equal(t, want, clock.end(), "pause %d", i+1)
		}
		assert.Equal(t, ": no such directory", <-heard, "it is reported once")
		prober <- volumetest.ProbeAnswer{}
		assert.Equal(t, ": <nil>", <-heard)
	}
	assert.Empty(t, heard)
}

func TestAnErrorAboutAPluginLeavesTheOneThatIsInUse(t *testing.T) {
	heard, prober := make(reports, 100), make(volumetest.FakeProber)
	mgr := newProbed(t, nil, volume.WithProber(prober), heard.option())
	plugin := flexDriver("driver")
	prober <- volumetest.Found(plugin)
	require.NoError(t, mgr.WaitForProbers(t.Context()))

	prober <- volumetest.ProbeAnswer{Events: []volume.ProbeEvent{{Name: plugin.Name(), Err: errors.New("mode 0644")}}}
	assert.Equal(t, "example.com/driver: mode 0644", <-heard)
	assert.True(t, inUse(mgr, plugin)())

	repaired := flexDriver("driver")
	prober <- volumetest.Found(repaired)
	assert.Equal(t, "example.com/driver: <nil>", <-heard)
	assert.True(t, inUse(mgr, repaired)())
}

func TestAnUpdateEndsTheInitialisationOfTheOneBefore(t *testing.T) {
	prober := make(volumetest.FakeProber)
	mgr := newProbed(t, nil, volume.WithProber(prober))
	started, ended := make(chan struct{}), make(chan struct{})
	hanging, working := flexDriver("driver"), flexDriver("driver")
	hanging.Inject(volumetest.Init, volumetest.Hooks{Before: func(ctx context.Context, _ volumetest.Call) error {
		close(started)
		<-ctx.Done()
		close(ended)
		return nil
	}})
	prober <- volumetest.Found(hanging)
	<-started
	prober <- volumetest.Found(working)
	<-ended
	require.NoError(t, mgr.WaitForProbers(t.Context()))
	eventually(t, "the update is in use", inUse(mgr, working))
	mgr.Close()
	assert.True(t, inUse(mgr, working)(), "plugins stay usable, and the older one has not come back")
}

func TestAProbedPluginTakesItsNameWhenThatBecomesFree(t *testing.T) {
	clock, heard, prober := newAnnouncingClock(), make(reports, 100), make(volumetest.FakeProber)
	mgr := newProbed(t, clock, volume.WithProber(prober), heard.option())
	static, probed := flexDriver("driver"), flexDriver("driver")
	require.NoError(t, mgr.Register(t.Context(), static))
	prober <- volumetest.Found(probed)
	assert.Equal(t, "example.com/driver: a plugin example.com/driver is registered already", <-heard)
	assert.True(t, inUse(mgr, static)())

	require.NoError(t, mgr.Unregister(static.Name()))
	clock.end()
	assert.Equal(t, "example.com/driver: <nil>", <-heard)
	assert.True(t, inUse(mgr, probed)())
}

func TestAPluginThatSomebodyElsePutInPlaceOfAProbedOneIsHis(t *testing.T) {
	heard, prober := make(reports, 100), make(volumetest.FakeProber)
	mgr := newProbed(t, newAnnouncingClock(), volume.WithProber(prober), heard.option())
	probed, his := flexDriver("driver"), flexDriver("driver")
	prober <- volumetest.Found(probed)
	require.NoError(t, mgr.WaitForProbers(t.Context()))
	require.NoError(t, mgr.Unregister(probed.Name()))
	require.NoError(t, mgr.Register(t.Context(), his))

	prober <- volumetest.Found(flexDriver("driver"))
	assert.Equal(t, "example.com/driver: a plugin example.com/driver is registered already", <-heard)
	assert.True(t, inUse(mgr, his)())
	prober <- volumetest.Gone(probed.Name())
	assert.Equal(t, "example.com/driver: <nil>", <-heard)
	assert.True(t, inUse(mgr, his)())
}

func TestEachProberBringsItsPlugins(t *testing.T) {
	one, two := make(volumetest.FakeProber), make(volumetest.FakeProber)
	mgr := newProbed(t, nil, volume.WithProber(one), volume.WithProber(two))
	a, b := flexDriver("a"), flexDriver("b")
	one <- volumetest.Found(a)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	eventually(t, "the plugin of the first prober is in use", inUse(mgr, a))
	assert.ErrorIs(t, mgr.WaitForProbers(ctx), context.Canceled, "the second prober has not answered yet")
	two <- volumetest.Found(b)
	require.NoError(t, mgr.WaitForProbers(t.Context()))
	assert.Equal(t, []volume.VolumePlugin{a, b}, mgr.Plugins())
}

func TestWhatGoesWrongIsLoggedUnlessSomebodyListens(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	logged := make(chan struct{}, 10)
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		defer func() { logged <- struct{}{} }()
		return log.Write(p)
	}))))
	prober := make(volumetest.FakeProber)
	host := volume.Host{Root: t.TempDir()}
	mgr, err := volume.NewVolumePluginMgr(klog.NewContext(t.Context(), logger), host, nil, volume.WithProber(prober))
	require.NoError(t, err)
	defer mgr.Close()
	prober <- volumetest.ProbeAnswer{Events: []volume.ProbeEvent{{Name: "example.com/driver", Err: errors.New("mode 0644")}}}
	<-logged
	prober <- volumetest.Gone("example.com/driver")
	<-logged
	mu.Lock()
	defer mu.Unlock()
	assert.Contains(t, log.String(), "mode 0644")
	assert.Contains(t, log.String(), "example.com/driver")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestTheLastWordOfAProberCounts(t *testing.T) {
	prober := make(volumetest.FakeProber)
	mgr := newProbed(t, nil, volume.WithProber(prober), volume.WithProbeErrors(func(string, error) {}))
	last := make(map[string]*volumetest.FakePlugin)
	for i := range 300 {
		name := fmt.Sprintf("driver-%d", i%5)
		if i%7 == 3 {
			prober <- volumetest.Gone("example.com/" + name)
			delete(last, name)
			continue
		}
		last[name] = flexDriver(name)
		if i%3 == 0 {
			// It fails at first, and by then there may be another one.
			last[name].Inject(volumetest.Init, volumetest.Hooks{Before: volumetest.FailTimes(1, errors.New("not yet"))})
		}
		prober <- volumetest.Found(last[name])
	}
	for _, plugin := range last {
		eventually(t, plugin.Name(), inUse(mgr, plugin))
	}
	prober <- volumetest.ProbeAnswer{}
	mgr.Close()
	assert.Len(t, mgr.Plugins(), len(last))
	for _, plugin := range last {
		assert.True(t, inUse(mgr, plugin)(), plugin.Name())
	}
}
