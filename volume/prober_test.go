// SPDX-License-Identifier: Apache-2.0

package volume_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// probing is a manager whose plugins come from a prober, on a clock that stands still.
type probing struct {
	*volume.VolumePluginMgr
	t       *testing.T
	prober  volumetest.FakeProber
	clock   *announcingClock
	reports chan report
}

type report struct {
	plugin string
	err    error
}

func newProbing(t *testing.T, static ...volume.VolumePlugin) *probing {
	p := &probing{t: t, prober: make(volumetest.FakeProber), clock: newAnnouncingClock(), reports: make(chan report, 100)}
	var err error
	p.VolumePluginMgr, err = volume.NewVolumePluginMgr(t.Context(), volume.Host{Root: t.TempDir(), Clock: p.clock}, static,
		volume.WithProber(p.prober), volume.WithProbeErrors(func(plugin string, err error) { p.reports <- report{plugin, err} }))
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// settle returns when the manager has dealt with all answers so far, as far as it can before the clock moves.
func (p *probing) settle() {
	p.t.Helper()
	p.prober <- volumetest.ProbeAnswer{}
}

// await returns the next report.
func (p *probing) await() report {
	p.t.Helper()
	select {
	case r := <-p.reports:
		return r
	case <-time.After(30 * time.Second):
		require.FailNow(p.t, "nothing was reported")
		return report{}
	}
}

func flexDriver(name string) *volumetest.FakePlugin {
	return serving("example.com/"+name, volume.Source{Type: volume.SourceFlexVolume, Driver: "v/" + name})
}

func TestProbedPluginsAppearAndVanish(t *testing.T) {
	p := newProbing(t)
	a, b := flexDriver("a"), flexDriver("b")
	p.prober <- volumetest.Found(a, b)
	require.NoError(t, p.WaitForProbers(t.Context()))
	assert.Equal(t, []volume.VolumePlugin{a, b}, p.Plugins())

	p.prober <- volumetest.Gone(a.Name())
	p.settle()
	assert.Equal(t, []volume.VolumePlugin{b}, p.Plugins())
	assert.Empty(t, p.reports)
}

func TestAProbedPluginThatChangedReplacesTheOldOneWhenItWorks(t *testing.T) {
	p := newProbing(t)
	first := flexDriver("a")
	p.prober <- volumetest.Found(first)
	require.NoError(t, p.WaitForProbers(t.Context()))

	second := flexDriver("a")
	second.Inject(volumetest.Init, volumetest.Hooks{Before: volumetest.FailTimes(1, errors.New("half written"))})
	p.prober <- volumetest.Found(second)
	require.Equal(t, report{"example.com/a", errors.New("half written")}, p.await())
	found, err := p.FindPluginBySpec(flexVolume("v/a"))
	require.NoError(t, err)
	assert.Same(t, first, found, "the old one stays while the new one fails")

	p.clock.end()
	require.Equal(t, report{"example.com/a", nil}, p.await())
	found, err = p.FindPluginBySpec(flexVolume("v/a"))
	require.NoError(t, err)
	assert.Same(t, second, found)
}

func TestAPluginThatFailsIsTriedAgainAndReportedOncePerReason(t *testing.T) {
	p := newProbing(t)
	broken := flexDriver("a")
	reasons := make(chan error, 1)
	broken.Inject(volumetest.Init, volumetest.Hooks{Before: func(context.Context, volumetest.Call) error { return <-reasons }})
	p.prober <- volumetest.Found(broken)

	reasons <- errors.New("first")
	require.Equal(t, report{"example.com/a", errors.New("first")}, p.await())
	require.NoError(t, p.WaitForProbers(t.Context()), "one that has failed once is not waited for")
	for range 3 {
		p.clock.end()
		reasons <- errors.New("first")
	}
	p.clock.end()
	reasons <- errors.New("second")
	require.Equal(t, report{"example.com/a", errors.New("second")}, p.await(), "the same reason again was not reported")
	p.clock.end()
	reasons <- nil
	require.Equal(t, report{"example.com/a", nil}, p.await())
	assert.Len(t, p.Plugins(), 1)
}

func TestABadPluginHidesNoOther(t *testing.T) {
	p := newProbing(t)
	good, failing, slow := flexDriver("good"), flexDriver("failing"), flexDriver("slow")
	failing.Inject(volumetest.Init, volumetest.Hooks{Before: volumetest.Fail(errors.New("broken"))})
	release := make(chan struct{})
	slow.Inject(volumetest.Init, volumetest.Hooks{Before: volumetest.Hang(release)})
	answer := volumetest.Found(slow, failing)
	answer.Events = append(answer.Events,
		volume.ProbeEvent{Name: "example.com/unreadable", Err: errors.New("mode 0644")},
		volume.ProbeEvent{Name: "example.com/nothing"},
		volume.ProbeEvent{Name: "example.com/alias", Plugin: flexDriver("other")})
	answer.Events = append(answer.Events, volumetest.Found(good).Events...)
	answer.Err = errors.New("the directory could not be read to its end")
	p.prober <- answer

	reported := make(map[string]string)
	for range 5 {
		r := p.await()
		reported[r.plugin] = r.err.Error()
	}
	assert.Equal(t, "broken", reported["example.com/failing"])
	assert.Equal(t, "mode 0644", reported["example.com/unreadable"])
	assert.Contains(t, reported["example.com/nothing"], "no plugin")
	assert.Contains(t, reported["example.com/alias"], "example.com/other")
	assert.Equal(t, answer.Err.Error(), reported[""])
	require.Eventually(t, func() bool { _, err := p.FindPluginBySpec(flexVolume("v/good")); return err == nil }, 30*time.Second, time.Millisecond)

	close(release)
	require.NoError(t, p.WaitForProbers(t.Context()))
	_, err := p.FindPluginBySpec(flexVolume("v/slow"))
	require.NoError(t, err)
}

func TestALookupDuringASlowProbeAnswersFromWhatIsKnown(t *testing.T) {
	static := serving("example.com/static", volume.Source{Type: volume.SourceEmptyDir})
	p := newProbing(t, static) // its prober has not answered yet
	found, err := p.FindPluginBySpec(emptyDir())
	require.NoError(t, err)
	assert.Same(t, static, found)

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("in a hurry"))
	require.EqualError(t, p.WaitForProbers(ctx), "in a hurry")
}

func TestAProbedPluginNeverTakesTheNameOfAnother(t *testing.T) {
	static := serving("example.com/a", volume.Source{Type: volume.SourceEmptyDir})
	p := newProbing(t, static)
	p.prober <- volumetest.Found(flexDriver("a"))
	r := p.await()
	assert.Equal(t, "example.com/a", r.plugin)
	require.ErrorIs(t, r.err, volume.ErrInvalid)
	assert.Equal(t, []volume.VolumePlugin{static}, p.Plugins())

	p.prober <- volumetest.Gone("example.com/a")
	assert.Equal(t, report{"example.com/a", nil}, p.await())
	assert.Equal(t, []volume.VolumePlugin{static}, p.Plugins(), "nor its place when it goes")
}

func TestAPluginThatVanishesWhileItIsInitialisedIsNotUsed(t *testing.T) {
	p := newProbing(t)
	slow := flexDriver("slow")
	started, ended := make(chan struct{}), make(chan struct{})
	slow.Inject(volumetest.Init, volumetest.Hooks{Before: func(ctx context.Context, _ volumetest.Call) error {
		defer close(ended)
		close(started)
		<-ctx.Done()
		return nil // as if it had succeeded in spite of that
	}})
	p.prober <- volumetest.Found(slow)
	<-started
	p.prober <- volumetest.Gone(slow.Name())
	<-ended
	p.settle()
	p.Close()
	assert.Empty(t, p.Plugins())
	assert.Empty(t, p.reports, "it is no failure either")
}

func TestAProberThatFailsIsAskedAgain(t *testing.T) {
	p := newProbing(t)
	p.prober <- volumetest.ProbeAnswer{Err: errors.New("too many open files")}
	require.Equal(t, report{"", errors.New("too many open files")}, p.await())
	require.NoError(t, p.WaitForProbers(t.Context()))
	p.clock.end()
	a := flexDriver("a")
	p.prober <- volumetest.Found(a)
	require.Equal(t, report{"", nil}, p.await())
}

func TestProbersEndWithTheContextOfTheManager(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	started, ended := make(chan struct{}), make(chan struct{})
	mgr, err := volume.NewVolumePluginMgr(ctx, volume.Host{Root: t.TempDir()}, nil, volume.WithProber(proberFunc(func(ctx context.Context) ([]volume.ProbeEvent, error) {
		defer close(ended)
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	})))
	require.NoError(t, err)
	<-started
	cancel()
	<-ended
	mgr.Close()
}

type proberFunc func(context.Context) ([]volume.ProbeEvent, error)

func (f proberFunc) Probe(ctx context.Context) ([]volume.ProbeEvent, error) { return f(ctx) }
