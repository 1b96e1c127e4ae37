// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/plugins"
	"github.com/volumekit/volumekit/volume"
)

// Whatever is called, in whatever order, while Run is started and stopped, ends; and in the end what is wanted is what is there.
func TestAHundredCallersWhoWantDifferentThingsEndInWhatIsWantedLast(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	uid := func(i int) types.UID { return types.UID(fmt.Sprintf("uid-pod-%d", i)) }
	var callers sync.WaitGroup
	for seed := range uint64(100) {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(seed, seed))
			for range 40 {
				i := random.IntN(10)
				p := withSubPathOf(pod(fmt.Sprintf("pod-%d", i), emptyDir("cache"), hostPath("host", "/")), random.IntN(2) == 0)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(3))*time.Millisecond)
				switch random.IntN(8) {
				case 0, 1:
					assert.NoError(t, b.SetPod(t.Context(), p))
				case 2:
					assert.NoError(t, b.RemovePod(uid(i)))
				case 3:
					_, _ = b.WaitForPod(ctx, uid(i))
				case 4:
					_, _ = b.ContainerMounts(ctx, uid(i), "main")
				case 5:
					b.ContainersChanged(uid(i))
					for _, p := range b.Status().Pods {
						assert.NotEmpty(t, p.UID)
					}
				case 6:
					_, _ = b.SetUpPod(ctx, p)
				case 7:
					_ = b.TearDownPod(ctx, uid(i))
				}
				cancel()
			}
		})
	}
	called := make(chan struct{})
	go func() {
		defer close(called)
		callers.Wait()
	}()
	for {
		stop := b.run()
		select {
		case <-called:
			stop()
		case <-time.After(10 * time.Millisecond):
			stop()
			continue
		}
		break
	}
	b.run()
	var wanted []*v1.Pod
	for i := range 5 {
		wanted = append(wanted, pod(fmt.Sprintf("pod-%d", i), emptyDir("cache")))
	}
	events := b.Events(t.Context(), 1000)
	require.NoError(t, b.SetPods(t.Context(), wanted))
	for _, p := range wanted {
		b.requireReady(p.UID)
	}
	for len(b.Status().Pods) > len(wanted) {
		<-events
	}
	require.NoError(t, b.SetPods(t.Context(), nil))
	for len(b.Status().Pods) > 0 {
		<-events
	}
	b.requireEmpty()
	_, err := b.WaitForPod(t.Context(), uid(0))
	require.True(t, errors.Is(err, volume.ErrNotFound))
}

// withSubPathOf has the pod's container mount a part of a volume, or not. Where nothing can be mounted there are none.
func withSubPathOf(p *v1.Pod, sub bool) *v1.Pod {
	if sub {
		p.Spec.Containers[0].VolumeMounts[0].SubPath = "a"
	}
	return p
}
