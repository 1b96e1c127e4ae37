// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/plugins"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	"github.com/volumekit/volumekit/volumemanager"
)

var oneMi = resource.MustParse("1Mi")

// leave sets the pods up and goes away, as an earlier process does.
func leave(t *testing.T, root string, serving []volume.VolumePlugin, pods ...*v1.Pod) {
	t.Helper()
	b := openRig(t, root, serving...)
	for _, p := range pods {
		_, err := b.SetUpPod(t.Context(), p)
		require.NoError(t, err)
	}
	require.NoError(t, b.Close())
}

func TestRecoveryAdoptsWhatIsWantedAndTakesTheRestAwayOnceItIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		leave(t, root, plugins.Default(), pod("kept", emptyDir("cache")), pod("gone", emptyDir("cache")))
		b := openRigWith(t, volumemanager.Options{}, unmounted(root), plugins.Default()...)
		file := func(pod string) string {
			return filepath.Join(root, "pods/uid-"+pod+"/volumes/kubernetes.io~empty-dir/cache/file")
		}
		for _, name := range []string{"kept", "gone"} {
			require.NoError(t, os.WriteFile(file(name), nil, 0o600))
		}
		events := b.Events(t.Context(), 100)
		b.run()
		require.NoError(t, b.SetPod(t.Context(), pod("kept", emptyDir("cache"))))
		b.requireReady("uid-kept")
		assert.FileExists(t, file("kept"))
		time.Sleep(time.Hour)
		assert.FileExists(t, file("gone"), "it may be wanted still")
		status := b.Status()
		assert.False(t, status.Complete)
		require.Len(t, status.Pods, 2)
		assert.Equal(t, "gone", status.Pods[0].Name)
		assert.False(t, status.Pods[0].Leaving)
		assert.Equal(t, volumemanager.Pending, status.Pods[0].Volumes[0].State)

		require.NoError(t, b.SetPods(t.Context(), []*v1.Pod{pod("kept", emptyDir("cache"))}))
		next(t, events, isRemoved("uid-gone"))
		assert.FileExists(t, file("kept"))
	})
}

func TestRecoverTellsWhatThereIsAndChangesNothing(t *testing.T) {
	root := t.TempDir()
	leave(t, root, plugins.Default(), pod("web", emptyDir("cache")))
	foreign := filepath.Join(root, "pods/uid-kubelet/volumes/kubernetes.io~empty-dir/data/file")
	require.NoError(t, os.MkdirAll(filepath.Dir(foreign), 0o750))
	require.NoError(t, os.WriteFile(foreign, nil, 0o600))
	b := openRig(t, root, plugins.Default()...)
	before := snapshot(t, root)
	events := b.Events(t.Context(), 100)
	require.NoError(t, b.Recover(t.Context()))
	require.NoError(t, b.Recover(t.Context()), "again")
	assert.Equal(t, before, snapshot(t, root))
	require.Len(t, b.Status().Pods, 1)
	assert.Equal(t, "web", b.Status().Pods[0].Name)
	told := map[types.UID]volumemanager.Outcome{}
	for range 2 {
		e := <-events
		told[e.UID] = e.Outcome
	}
	assert.Equal(t, map[types.UID]volumemanager.Outcome{"uid-web": volumemanager.OutcomeSucceeded, "uid-kubelet": volumemanager.OutcomeFailed}, told)

	stop := b.run()
	require.NoError(t, b.SetPods(t.Context(), nil))
	next(t, events, isRemoved("uid-web"))
	stop()
	assert.FileExists(t, foreign, "what was not set up here is left alone")
}

// containers is what the containers of pods are said to do.
type containers struct{ presence atomic.Int64 }

func (c *containers) set(p volume.Presence) { c.presence.Store(int64(p)) }

func (c *containers) RunningContainers(context.Context, types.UID) (volume.Presence, error) {
	p := volume.Presence(c.presence.Load())
	if p == volume.Unknown {
		return p, errors.New("the runtime does not answer")
	}
	return p, nil
}

func TestNothingIsUnmountedBeforeTheContainersAreReportedGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		fake := &volumetest.FakePlugin{}
		leave(t, root, []volume.VolumePlugin{fake}, pod("web", emptyDir("cache")))
		runtime := &containers{}
		b := openRigWith(t, volumemanager.Options{Containers: runtime}, unmounted(root), fake)
		require.ErrorIs(t, b.TearDownPod(t.Context(), "uid-web"), volume.ErrUncertain, "the simple call neither")

		events := b.Events(t.Context(), 100)
		b.run()
		require.NoError(t, b.SetPods(t.Context(), nil))
		for _, presence := range []volume.Presence{volume.Unknown, volume.Present} {
			runtime.set(presence)
			time.Sleep(time.Hour)
			synctest.Wait()
			require.Empty(t, fake.CallsOf(volumetest.TearDown), presence)
			assert.ErrorContains(t, b.Status().Pods[0].Volumes[0].Err, "containers still run")
		}
		runtime.set(volume.Absent)
		begun := time.Now()
		b.ContainersChanged("uid-web")
		next(t, events, isRemoved("uid-web"))
		assert.Equal(t, begun, time.Now(), "at once")
	})
}

// whenAsked says that there are no containers, after doing something.
type whenAsked func()

func (f whenAsked) RunningContainers(context.Context, types.UID) (volume.Presence, error) {
	f()
	return volume.Absent, nil
}

func TestAPodThatIsRemovedWhileItsContainersAreAskedForGetsNoVolumeWithoutARecord(t *testing.T) {
	fake := &volumetest.FakePlugin{}
	var b *rig
	remove := whenAsked(func() { assert.NoError(t, b.RemovePod("uid-web")) })
	b = openRigWith(t, volumemanager.Options{Containers: remove}, volume.Host{Root: t.TempDir()}, fake)
	fake.Inject(volumetest.SetUp, volumetest.Hooks{Before: func(_ context.Context, call volumetest.Call) error {
		assert.Contains(t, b.record(call.PodUID), call.Volume)
		return nil
	}})
	events := b.Events(t.Context(), 100)
	b.run()
	require.NoError(t, b.SetPod(t.Context(), pod("web", emptyDir("before"))))
	b.requireReady("uid-web")
	require.NoError(t, b.SetPod(t.Context(), pod("web", emptyDir("after"))))
	next(t, events, isRemoved("uid-web"))
	b.requireEmpty()
}

func TestAVolumeWhoseTearingDownCouldNotBeRecordedIsAskedForAgainBeforeItGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runtime := &containers{}
		runtime.set(volume.Absent)
		b := openRigWith(t, volumemanager.Options{Containers: runtime}, unmounted(t.TempDir()), plugins.Default()...)
		b.run()
		require.NoError(t, b.SetPods(t.Context(), []*v1.Pod{pod("web", emptyDir("cache"))}))
		file := filepath.Join(b.requireReady("uid-web").Volumes[0].Path, "file")
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		time.Sleep(time.Second)

		// Neither the mark of a pod that leaves nor that of a volume that changes can be made; then the containers run again.
		inTheWay := []string{"volumekit.leaving.json", ".volumekit.json"}
		for _, name := range inTheWay {
			require.NoError(t, os.MkdirAll(filepath.Join(b.plugins.Host().PodDir("uid-web"), name, "x"), 0o700))
		}
		other := emptyDir("cache")
		other.EmptyDir.SizeLimit = &oneMi
		for _, pods := range [][]*v1.Pod{nil, {pod("web", other)}} {
			runtime.set(volume.Absent)
			require.NoError(t, b.SetPods(t.Context(), pods))
			synctest.Wait()
			runtime.set(volume.Present)
			time.Sleep(time.Minute)
			assert.FileExists(t, file)
		}
		for _, name := range inTheWay {
			require.NoError(t, os.RemoveAll(filepath.Join(b.plugins.Host().PodDir("uid-web"), name)))
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.FileExists(t, file, "the containers still run")
		require.NoError(t, b.SetPods(t.Context(), []*v1.Pod{pod("web", emptyDir("cache"))}))
		b.requireReady("uid-web")
		assert.FileExists(t, file)
	})
}

// never is a runtime that does not answer, whatever the context says.
type never chan struct{}

func (n never) RunningContainers(context.Context, types.UID) (volume.Presence, error) {
	<-n
	return volume.Absent, nil
}

func TestARuntimeThatDoesNotAnswerIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runtime := make(never)
		b := openRigWith(t, volumemanager.Options{Containers: runtime}, unmounted(t.TempDir()), plugins.Default()...)
		events := b.Events(t.Context(), 1000)
		b.run()
		require.NoError(t, b.SetPods(t.Context(), []*v1.Pod{pod("web", emptyDir("cache"))}))
		b.requireReady("uid-web")
		require.NoError(t, b.SetPods(t.Context(), nil))
		time.Sleep(time.Hour)
		synctest.Wait()
		before := goruntime.NumGoroutine()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		assert.LessOrEqual(t, goruntime.NumGoroutine(), before)
		answered := time.Now()
		close(runtime)
		next(t, events, isRemoved("uid-web"))
		assert.Equal(t, answered, time.Now(), "at once")
	})
}

func TestVolumesWaitForTheirPlugin(t *testing.T) {
	for name, wanted := range map[string]bool{"of a pod that is wanted": true, "of a pod that is not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				root := t.TempDir()
				fake := &volumetest.FakePlugin{}
				leave(t, root, []volume.VolumePlugin{fake}, pod("web", emptyDir("cache")))
				b := openRigWith(t, volumemanager.Options{}, unmounted(root))
				events := b.Events(t.Context(), 100)
				b.run()
				var pods []*v1.Pod
				if wanted {
					pods = []*v1.Pod{pod("web", emptyDir("cache"))}
				}
				require.NoError(t, b.SetPods(t.Context(), pods))
				time.Sleep(10 * time.Second)
				synctest.Wait()
				status := b.Status().Pods[0].Volumes[0]
				assert.Equal(t, volumemanager.Pending, status.State)
				assert.DirExists(t, filepath.Join(root, "pods/uid-web/volumes/volumetest~fake/cache"))

				appeared := time.Now()
				require.NoError(t, b.plugins.Register(t.Context(), fake))
				if wanted {
					b.requireReady("uid-web")
					assert.Empty(t, fake.CallsOf(volumetest.TearDown))
				} else {
					next(t, events, isRemoved("uid-web"))
				}
				assert.Equal(t, appeared, time.Now(), "at once")
			})
		})
	}
}

func TestADamagedRecordIsNoObstacle(t *testing.T) {
	for name, wanted := range map[string]bool{"of a pod that is wanted": true, "of a pod that is not": false} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			leave(t, root, plugins.Default(), pod("web", emptyDir("cache")))
			b := openRig(t, root, plugins.Default()...)
			require.NoError(t, os.Truncate(b.recordPath("uid-web"), 9))
			file := filepath.Join(root, "pods/uid-web/volumes/kubernetes.io~empty-dir/cache/file")
			require.NoError(t, os.WriteFile(file, nil, 0o600))
			events := b.Events(t.Context(), 100)
			b.run()
			if wanted {
				require.NoError(t, b.SetPods(t.Context(), []*v1.Pod{pod("web", emptyDir("cache"))}))
				b.requireReady("uid-web")
				assert.FileExists(t, file)
				return
			}
			require.NoError(t, b.SetPods(t.Context(), nil))
			next(t, events, isRemoved("uid-web"))
			b.requireEmpty()
		})
	}
}
