// SPDX-License-Identifier: Apache-2.0

package volume_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

func TestAProberThatWorksDoesNotHideOneThatFails(t *testing.T) {
	clock, heard := newAnnouncingClock(), make(reports, 100)
	bad, good := make(volumetest.FakeProber), make(volumetest.FakeProber)
	newProbed(t, clock, volume.WithProber(bad), volume.WithProber(good), heard.option())
	bad <- volumetest.ProbeAnswer{Err: errors.New("no such directory")}
	assert.Equal(t, ": no such directory", <-heard)
	for range 3 {
		good <- volumetest.ProbeAnswer{}
	}
	clock.end()
	bad <- volumetest.ProbeAnswer{Err: errors.New("no such directory")}
	<-clock.pauses
	assert.Empty(t, heard, "nothing has changed")
}

func TestTwoProbersThatBringOneName(t *testing.T) {
	clock, heard := newAnnouncingClock(), make(reports, 100)
	one, two := make(volumetest.FakeProber), make(volumetest.FakeProber)
	mgr := newProbed(t, clock, volume.WithProber(one), volume.WithProber(two), heard.option())
	first, second := flexDriver("driver"), flexDriver("driver")
	one <- volumetest.Found(first)
	eventually(t, "the first is in use", inUse(mgr, first))

	two <- volumetest.Found(second)
	assert.Equal(t, "example.com/driver: a plugin example.com/driver is registered already", <-heard)
	assert.True(t, inUse(mgr, first)(), "the one that came first stays")

	one <- volumetest.Gone(first.Name())
	one <- volumetest.ProbeAnswer{}
	clock.end()
	assert.Equal(t, "example.com/driver: <nil>", <-heard)
	assert.True(t, inUse(mgr, second)(), "the other one takes its place")

	one <- volumetest.Gone(first.Name())
	one <- volumetest.ProbeAnswer{}
	assert.True(t, inUse(mgr, second)(), "what one prober says is not about the plugins of another")
}

func TestAPluginWhoseNameIsTakenIsNotInitialised(t *testing.T) {
	heard, prober := make(reports, 100), make(volumetest.FakeProber)
	mgr := newProbed(t, newAnnouncingClock(), volume.WithProber(prober), heard.option())
	require.NoError(t, mgr.Register(t.Context(), flexDriver("driver")))
	probed := flexDriver("driver")
	prober <- volumetest.Found(probed)
	<-heard
	assert.Empty(t, probed.Calls())
}

func TestWhatIsReportedOfAPluginComesInOrder(t *testing.T) {
	prober := make(volumetest.FakeProber)
	begun, goOn, heard := make(chan struct{}), make(chan struct{}), make(chan error, 10)
	newProbed(t, newAnnouncingClock(), volume.WithProber(prober), volume.WithProbeErrors(func(_ string, err error) {
		if err != nil {
			close(begun)
			<-goOn
		}
		heard <- err
	}))
	plugin := flexDriver("driver")
	cause := errors.New("failed")
	plugin.Inject(volumetest.Init, volumetest.Hooks{Before: volumetest.Fail(cause)})
	prober <- volumetest.Found(plugin)
	<-begun
	prober <- volumetest.Gone(plugin.Name())
	for range 1000 {
		runtime.Gosched() // It is not to be reported now that it is gone.
	}
	close(goOn)
	assert.Equal(t, cause, <-heard)
	assert.NoError(t, <-heard)
}
