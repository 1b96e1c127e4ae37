// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/plugins"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	"github.com/volumekit/volumekit/volumemanager"
)

// run has the manager see to its pods until the test ends, or stop is called.
func (b *rig) run() (stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			assert.NoError(b.t, <-ended)
		}
	}
	b.t.Cleanup(stop)
	return stop
}

// requireReady waits until the pod has all its volumes.
func (b *rig) requireReady(uid types.UID) volumemanager.PodStatus {
	b.t.Helper()
	status, err := b.WaitForPod(b.t.Context(), uid)
	require.NoError(b.t, err)
	return status
}

// next returns the next event that f accepts.
func next(t *testing.T, events <-chan volumemanager.Event, f func(volumemanager.Event) bool) volumemanager.Event {
	t.Helper()
	for {
		select {
		case e, open := <-events:
			require.True(t, open, "no more events")
			if f(e) {
				return e
			}
		case <-t.Context().Done():
			require.Fail(t, "the test ended first")
		}
	}
}

func isRemoved(uid types.UID) func(volumemanager.Event) bool {
	return func(e volumemanager.Event) bool {
		return e.UID == uid && e.Operation == volumemanager.OperationRemove && e.Outcome == volumemanager.OutcomeSucceeded
	}
}

func hasFailed(volume string, operation volumemanager.Operation) func(volumemanager.Event) bool {
	return func(e volumemanager.Event) bool {
		return e.Volume == volume && e.Operation == operation && e.Outcome != volumemanager.OutcomeSucceeded
	}
}

func TestRunGivesPodsTheirVolumesAndTakesThemAway(t *testing.T) {
	b := openRigWith(t, volumemanager.Options{Usage: volumemanager.UsageOptions{Off: true}}, volume.Host{Root: t.TempDir()}, plugins.Default()...)
	events := b.Events(t.Context(), 100)
	b.run()
	require.NoError(t, b.SetPods(t.Context(), []*v1.Pod{pod("web", emptyDir("cache"), hostPath("host", "/etc")), pod("none")}))
	status := b.requireReady("uid-web")
	assert.DirExists(t, status.Volumes[0].Path)
	assert.Len(t, status.Containers[0].Mounts, 2)
	assert.Empty(t, b.requireReady("uid-none").Volumes, "a pod without volumes is ready too")
	shown := b.Status()
	assert.True(t, shown.Running && shown.Recovered && shown.Complete)
	require.Len(t, shown.Pods, 2)
	assert.Equal(t, status, shown.Pods[1])

	require.NoError(t, b.RemovePod("uid-none"))
	next(t, events, isRemoved("uid-none"))
	require.NoError(t, b.SetPods(t.Context(), nil))
	next(t, events, isRemoved("uid-web"))
	b.requireEmpty()
	assert.Empty(t, b.Status().Pods)
	_, err := b.WaitForPod(t.Context(), "uid-web")
	require.ErrorIs(t, err, volume.ErrNotFound)
}

func TestWhatIsWantedBeforeRunIsThereAfterwards(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	require.NoError(t, b.SetPod(t.Context(), pod("web", emptyDir("cache"))))
	b.requireEmpty()
	b.run()
	b.requireReady("uid-web")
}

func TestTheSimpleCallsAreRefusedWhileRunSeesToPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openRigWith(t, volumemanager.Options{}, unmounted(t.TempDir()), plugins.Default()...)
		stop := b.run()
		synctest.Wait()
		_, err := b.SetUpPod(t.Context(), pod("web", emptyDir("cache")))
		require.ErrorIs(t, err, volume.ErrInUse)
		require.ErrorIs(t, b.TearDownPod(t.Context(), "uid-web"), volume.ErrInUse)
		require.ErrorIs(t, b.Run(t.Context()), volume.ErrInUse, "twice")
		stop()
		_, err = b.SetUpPod(t.Context(), pod("web", emptyDir("cache")))
		require.NoError(t, err)
	})
}

func TestASecondRunIsRefusedUntilTheFirstHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &volumetest.FakePlugin{}
		release := make(chan struct{})
		fake.Inject(volumetest.SetUp, volumetest.Hooks{Before: func(context.Context, volumetest.Call) error {
			<-release
			return nil
		}})
		b := openRigWith(t, volumemanager.Options{}, unmounted(t.TempDir()), fake)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- b.Run(ctx) }()
		require.NoError(t, b.SetPod(t.Context(), pod("web", emptyDir("cache"))))
		synctest.Wait()
		cancel()
		synctest.Wait() // it waits for the operation now, for a second
		require.ErrorIs(t, b.Run(t.Context()), volume.ErrInUse)
		_, err := b.SetUpPod(t.Context(), pod("web", emptyDir("cache")))
		require.ErrorIs(t, err, volume.ErrInUse)
		require.NoError(t, <-ended)
		b.run()
		close(release)
		b.requireReady("uid-web")
	})
}

func TestWaitForPodSaysWhatIsMissingAndWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &volumetest.FakePlugin{}
		fake.Inject(volumetest.SetUp, volumetest.Hooks{Before: func(_ context.Context, call volumetest.Call) error {
			if call.Volume == "bad" {
				return errors.New("out of luck")
			}
			return nil
		}})
		b := openRigWith(t, volumemanager.Options{}, unmounted(t.TempDir()), fake)
		b.run()
		require.NoError(t, b.SetPod(t.Context(), pod("web", emptyDir("good"), emptyDir("bad"), image("tools"))))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		status, err := b.WaitForPod(ctx, "uid-web")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, `set up volume "bad" of pod default/web`)
		assert.ErrorContains(t, err, "out of luck")
		assert.ErrorContains(t, err, "source image is not served here")
		assert.NotContains(t, err.Error(), `"good"`)
		assert.Equal(t, volumemanager.Mounted, status.Volumes[0].State)
		assert.Positive(t, status.Volumes[1].Failures)
		assert.False(t, status.Volumes[1].NextTry.IsZero())
	})
}

func TestAPodThatIsRefusedKeepsTheVolumesThatItHas(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	b.run()
	require.NoError(t, b.SetPods(t.Context(), []*v1.Pod{pod("web", emptyDir("cache"))}))
	path := b.requireReady("uid-web").Volumes[0].Path
	err := b.SetPods(t.Context(), []*v1.Pod{pod("web", emptyDir("cache"), emptyDir("cache"))})
	require.ErrorIs(t, err, volume.ErrInvalid)
	_, err = b.WaitForPod(t.Context(), "uid-web")
	require.ErrorIs(t, err, volume.ErrInvalid)
	assert.DirExists(t, path)
	assert.ErrorIs(t, b.Status().Pods[0].Err, volume.ErrInvalid)

	require.NoError(t, b.SetPods(t.Context(), []*v1.Pod{pod("web", emptyDir("cache"))}))
	b.requireReady("uid-web")
}

func TestEachVolumeIsTriedAgainWithABackoffOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &volumetest.FakePlugin{}
		b := openRigWith(t, volumemanager.Options{}, unmounted(t.TempDir()), fake)
		var tries []time.Duration
		begun := time.Now()
		fake.Inject(volumetest.SetUp, volumetest.Hooks{Before: func(_ context.Context, call volumetest.Call) error {
			if call.Volume == "bad" {
				tries = append(tries, time.Since(begun).Round(time.Second/4))
				return errors.New("out of luck")
			}
			return nil
		}})
		b.run()
		require.NoError(t, b.SetPod(t.Context(), pod("web", emptyDir("bad"), emptyDir("good"))))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.Len(t, fake.CallsOf(volumetest.SetUp), len(tries)+1, "the good one was set up once")
		assert.Less(t, len(tries), 14, "%v", tries)
		assert.Greater(t, len(tries), 9, "%v", tries)
		assert.Equal(t, []time.Duration{0, time.Second / 2}, tries[:2])
	})
}

func TestTheBackoffBeginsAnewWhenThePodChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &volumetest.FakePlugin{}
		var failing atomic.Bool
		failing.Store(true)
		fake.Inject(volumetest.SetUp, volumetest.Hooks{Before: func(context.Context, volumetest.Call) error {
			if failing.Load() {
				return errors.New("out of luck")
			}
			return nil
		}})
		b := openRigWith(t, volumemanager.Options{}, unmounted(t.TempDir()), fake)
		events := b.Events(t.Context(), 1000)
		b.run()
		require.NoError(t, b.SetPod(t.Context(), pod("old", emptyDir("cache"))))
		time.Sleep(time.Hour)
		synctest.Wait()
		failing.Store(false)
		changed := time.Now()

		// The pod is replaced by a new one: the old one's volume goes, and the new one's first try starts, at once.
		require.NoError(t, b.RemovePod("uid-old"))
		require.NoError(t, b.SetPod(t.Context(), pod("new", emptyDir("cache"))))
		b.requireReady("uid-new")
		next(t, events, isRemoved("uid-old"))
		assert.Equal(t, changed, time.Now())
	})
}

func TestAVolumeThatHangsCostsOneGoroutineAndDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &volumetest.FakePlugin{}
		release := make(chan struct{})
		fake.Inject(volumetest.SetUp, volumetest.Hooks{Before: func(_ context.Context, call volumetest.Call) error {
			if call.Volume == "hung" {
				<-release // whatever the context says
			}
			return nil
		}})
		b := openRigWith(t, volumemanager.Options{}, unmounted(t.TempDir()), fake)
		events := b.Events(t.Context(), 1000)
		b.run()
		var pods []*v1.Pod
		for i := range 200 { // more than are worked on at the same time
			pods = append(pods, pod(fmt.Sprintf("stuck-%d", i), emptyDir("hung")))
		}
		require.NoError(t, b.SetPods(t.Context(), append(pods, pod("other", emptyDir("fine")))))
		begun := time.Now()
		b.requireReady("uid-other")
		assert.Less(t, time.Since(begun), time.Second)

		time.Sleep(time.Hour)
		synctest.Wait()
		goroutines := runtime.NumGoroutine()
		assert.Less(t, goroutines, 200+50, "one for each that hangs, and a few")
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		assert.LessOrEqual(t, runtime.NumGoroutine(), goroutines, "they do not grow")
		status := b.Status().Pods[1]
		require.Equal(t, types.UID("uid-stuck-0"), status.UID)
		require.NotNil(t, status.Volumes[0].Running)
		assert.True(t, status.Volumes[0].Running.Abandoned)
		assert.ErrorIs(t, status.Volumes[0].Err, volume.ErrUncertain)
		assert.Len(t, fake.CallsOf(volumetest.SetUp), 201, "the plugin is never in two calls for one volume")

		require.NoError(t, b.RemovePod("uid-stuck-0"))
		synctest.Wait()
		assert.Empty(t, fake.CallsOf(volumetest.TearDown), "not even to tear it down")
		close(release)
		next(t, events, isRemoved("uid-stuck-0"))
		b.requireReady("uid-stuck-1")
	})
}

func TestAnOperationThatIsOvertakenEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &volumetest.FakePlugin{}
		fake.Inject(volumetest.SetUp, volumetest.Hooks{Before: volumetest.Hang(nil)}) // until its context ends
		b := openRigWith(t, volumemanager.Options{}, unmounted(t.TempDir()), fake)
		events := b.Events(t.Context(), 1000)
		b.run()
		begun := time.Now()
		require.NoError(t, b.SetPod(t.Context(), pod("web", emptyDir("cache"))))
		synctest.Wait()
		require.NoError(t, b.RemovePod("uid-web"))
		next(t, events, isRemoved("uid-web"))
		assert.Less(t, time.Since(begun), time.Second, "though it may take two minutes")
	})
}

func TestAVolumeThatThePodLosesGoesAndOneThatChangesIsReplaced(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	events := b.Events(t.Context(), 1000)
	b.run()
	require.NoError(t, b.SetPod(t.Context(), pod("web", emptyDir("cache"), emptyDir("logs"), emptyDir("same"))))
	first := b.requireReady("uid-web")
	for _, v := range first.Volumes {
		require.NoError(t, os.WriteFile(filepath.Join(v.Path, "file"), nil, 0o600))
	}
	require.NoError(t, b.SetPod(t.Context(), pod("web", hostPath("cache", "/etc"), emptyDir("same"))))
	next(t, events, func(e volumemanager.Event) bool {
		return e.Operation == volumemanager.OperationTearDown && e.Volume == "logs"
	})
	second := b.requireReady("uid-web")
	assert.Equal(t, "/etc", second.Volumes[0].Path)
	assert.FileExists(t, filepath.Join(second.Volumes[1].Path, "file"), "what has not changed is not touched")
	assert.NoDirExists(t, first.Volumes[1].Path)

	memory := emptyDir("same")
	memory.EmptyDir.SizeLimit = &oneMi
	require.NoError(t, b.SetPod(t.Context(), pod("web", memory)))
	third := b.requireReady("uid-web")
	assert.NoFileExists(t, filepath.Join(third.Volumes[0].Path, "file"), "another source is another volume")
}

func TestAPodIsReadyAlthoughWhatItHasNoMoreIsStillThere(t *testing.T) {
	fake := &volumetest.FakePlugin{}
	fake.Inject(volumetest.TearDown, volumetest.Hooks{Before: volumetest.Fail(errors.New("out of luck"))})
	b := newRig(t, fake)
	b.run()
	require.NoError(t, b.SetPod(t.Context(), pod("web", emptyDir("before"))))
	b.requireReady("uid-web")
	require.NoError(t, b.SetPod(t.Context(), pod("web", emptyDir("after"))))
	status := b.requireReady("uid-web")
	assert.Equal(t, volumemanager.Mounted, status.Volumes[0].State)
	assert.Equal(t, volumemanager.Pending, status.Volumes[1].State)
}

func TestEventsTellWhatHappenedInOrderAndWhatWasLost(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	all := b.Events(t.Context(), 100)
	few := b.Events(t.Context(), 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := b.Events(ctx, 1)
	cancel()
	b.run()
	require.NoError(t, b.SetPod(t.Context(), pod("web", emptyDir("cache"))))
	b.requireReady("uid-web")
	require.NoError(t, b.RemovePod("uid-web"))
	var happened []string
	next(t, all, func(e volumemanager.Event) bool {
		assert.Equal(t, "default/web", e.Namespace+"/"+e.Name)
		assert.GreaterOrEqual(t, e.Duration, time.Duration(0))
		happened = append(happened, fmt.Sprint(e.Operation, " ", e.Volume, " ", e.Outcome))
		return e.Operation == volumemanager.OperationRemove
	})
	assert.Equal(t, []string{"set up cache succeeded", "tear down cache succeeded", "remove  succeeded"}, happened)
	count := 0
	next(t, few, func(e volumemanager.Event) bool {
		count += 1 + e.Lost
		return e.Operation == volumemanager.OperationRemove
	})
	assert.Equal(t, len(happened), count, "what was lost is counted")
	for range ended { // until it is closed
	}
}
