// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
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

// faults are random ones, until there were enough.
type faults struct {
	mu     sync.Mutex
	random *rand.Rand
	left   int
}

// hook fails, hangs until its context ends, is uncertain, or does nothing.
func (f *faults) hook(ctx context.Context, _ volumetest.Call) error {
	f.mu.Lock()
	kind := f.random.IntN(4)
	if f.left == 0 {
		kind = 0
	} else if kind > 0 {
		f.left--
	}
	f.mu.Unlock()
	switch kind {
	case 1:
		return errors.New("out of luck")
	case 2:
		return volume.Errorf(volume.ErrUncertain, "no answer in time")
	case 3:
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// RunningContainers tells that they are gone, that they run, or that it does not know.
func (f *faults) RunningContainers(context.Context, types.UID) (volume.Presence, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 {
		return volume.Absent, nil
	}
	f.left--
	return volume.Presence(f.random.IntN(3)), nil
}

func (f *faults) over() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left == 0
}

func TestTenThousandFaultsInARowEndInWhatIsWanted(t *testing.T) {
	const seed = 7
	synctest.Test(t, func(t *testing.T) {
		f := &faults{random: rand.New(rand.NewPCG(seed, seed)), left: 10_000}
		fake := &volumetest.FakePlugin{}
		b := openRigWith(t, volumemanager.Options{Containers: f}, unmounted(t.TempDir()), fake)
		recorded := func(ctx context.Context, call volumetest.Call) error {
			assert.True(t, b.isRecorded(call.PodUID), "nothing is done without a record")
			return f.hook(ctx, call)
		}
		for _, op := range []volumetest.Operation{volumetest.SetUp, volumetest.TearDown} {
			fake.Inject(op, volumetest.Hooks{Before: recorded, After: recorded})
		}
		fake.Inject(volumetest.Presence, volumetest.Hooks{Before: f.hook, After: f.hook})
		b.run()
		random := rand.New(rand.NewPCG(seed, seed+1))
		wanted := make(map[types.UID]*v1.Pod)
		for !f.over() {
			var pods []*v1.Pod
			clear(wanted)
			for i := range 30 {
				if random.IntN(3) == 0 {
					continue
				}
				var volumes []v1.Volume
				for j := range random.IntN(4) {
					v := emptyDir(fmt.Sprintf("volume-%d", j))
					if random.IntN(4) == 0 {
						v.EmptyDir.SizeLimit = &oneMi
					}
					volumes = append(volumes, v)
				}
				p := pod(fmt.Sprintf("pod-%d", i), volumes...)
				pods = append(pods, p)
				wanted[p.UID] = p
			}
			require.NoError(t, b.SetPods(t.Context(), pods))
			time.Sleep(time.Duration(random.IntN(600)) * time.Second)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		for _, p := range b.inspect() {
			pod := wanted[p.UID]
			delete(wanted, p.UID)
			if !assert.NotNil(t, pod, "%s is not wanted: %v", p.UID, p) {
				continue
			}
			assert.Len(t, p.Volumes, len(pod.Spec.Volumes))
			for _, v := range p.Volumes {
				assert.Equal(t, volumemanager.Mounted, v.State, "%v", v.Err)
			}
			_, err := b.WaitForPod(t.Context(), p.UID)
			assert.NoError(t, err)
		}
		assert.Empty(t, wanted, "they are not there")
		assert.Len(t, b.Status().Pods, len(b.inspect()), "nothing else is held")
	})
}

func TestAThousandPodsThatWereLeftBehindGoAndWhatIsNotOursStays(t *testing.T) {
	root := t.TempDir()
	host := volume.Host{Root: root}
	var left []*v1.Pod
	for i := range 1000 {
		p := pod(fmt.Sprintf("left-%d", i), emptyDir("cache"))
		if i%3 == 1 { // nothing is recorded of it
			file := filepath.Join(host.PodVolumeDir(p.UID, "kubernetes.io/empty-dir", "cache"), "file")
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
			require.NoError(t, os.WriteFile(file, nil, 0o600))
			continue
		}
		left = append(left, p)
	}
	leave(t, root, plugins.Default(), left...)
	for i, p := range left {
		if i%2 == 0 {
			require.NoError(t, os.Truncate(filepath.Join(host.PodDir(p.UID), "volumekit.json"), int64(i%7)))
		}
	}
	b := openRig(t, root, plugins.Default()...)
	b.run()
	events := b.Events(t.Context(), 10_000)
	require.NoError(t, b.SetPods(t.Context(), nil))
	for range left {
		next(t, events, func(e volumemanager.Event) bool { return e.Operation == volumemanager.OperationRemove })
	}
	for i := range 1000 {
		uid := types.UID(fmt.Sprintf("uid-left-%d", i))
		if i%3 == 1 {
			assert.FileExists(t, filepath.Join(host.PodVolumeDir(uid, "kubernetes.io/empty-dir", "cache"), "file"))
		} else {
			assert.NoDirExists(t, host.PodDir(uid))
		}
	}
}
