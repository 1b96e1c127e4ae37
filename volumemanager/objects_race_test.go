// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/objects"
	"github.com/volumekit/volumekit/projected"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volumemanager"
)

func TestPodsAndObjectsThatChangeAllTheTimeEndUpAsTheyAreWanted(t *testing.T) {
	const pods, changers, changes = 20, 8, 60
	store, dir := objects.NewStore(), t.TempDir()
	host := store.Fill(volume.Host{Root: t.TempDir()})
	all := append(projected.New(projected.Options{OnDisk: true}), hostpath.New(hostpath.Options{}))
	options := volumemanager.Options{Backoff: wait.Backoff{Duration: time.Millisecond, Factor: 2, Steps: 8, Cap: 50 * time.Millisecond}}
	b := openRigWith(t, options, host, all...)
	settings := func(n int, value string) *v1.ConfigMap {
		c := &v1.ConfigMap{Data: map[string]string{"a": value, "b": value}}
		c.Namespace, c.Name = "default", fmt.Sprint("settings-", n)
		return c
	}
	bound := func(n int) []any {
		return []any{claimNamed(fmt.Sprint("data-", n), fmt.Sprint("pv-", n)), hostPathVolume(fmt.Sprint("pv-", n), dir)}
	}
	wanted := func(n int) *v1.Pod {
		return pod(fmt.Sprint("pod-", n), configMap(fmt.Sprint("settings-", n)), claim("data", fmt.Sprint("data-", n)))
	}
	set := func(objects ...any) {
		for _, o := range objects {
			switch o := o.(type) {
			case *v1.ConfigMap:
				assert.NoError(t, store.Set(o))
			case *v1.PersistentVolume:
				assert.NoError(t, store.Set(o))
			case *v1.PersistentVolumeClaim:
				assert.NoError(t, store.Set(o))
			}
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { // which is interrupted again and again
		for ctx.Err() == nil {
			once, end := context.WithTimeout(ctx, 20*time.Millisecond)
			assert.NoError(t, b.Run(once))
			end()
		}
	})
	var changing sync.WaitGroup
	for range changers {
		changing.Go(func() {
			for range changes {
				n := rand.N(pods)
				switch rand.N(7) {
				case 0:
					store.Remove(settings(n, ""))
				case 1:
					set(claimNamed(fmt.Sprint("data-", n), ""))
				case 2:
					set(bound(n)...)
				case 3:
					assert.NoError(t, b.RemovePod(types.UID(fmt.Sprint("uid-pod-", n))))
				case 4:
					assert.NoError(t, b.SetPod(t.Context(), wanted(n)))
				case 5:
					_ = b.Status()
				default:
					set(settings(n, fmt.Sprint(rand.N(1000))))
				}
			}
		})
	}
	changing.Wait()
	cancel()
	running.Wait()

	b.run()
	var everyone []*v1.Pod
	for n := range pods {
		set(settings(n, "last"))
		set(bound(n)...)
		everyone = append(everyone, wanted(n))
	}
	events := b.Events(t.Context(), 100_000)
	require.NoError(t, b.SetPods(t.Context(), everyone))
	for _, p := range everyone {
		status := b.requireReady(p.UID)
		assert.Equal(t, dir, status.Volumes[1].Path)
		shown := filepath.Join(status.Volumes[0].Path, "a")
		for {
			data, err := os.ReadFile(shown)
			require.NoError(t, err)
			if string(data) == "last" {
				break
			}
			next(t, events, func(e volumemanager.Event) bool { return e.Operation == volumemanager.OperationRefresh })
		}
	}
	require.NoError(t, b.SetPods(t.Context(), nil))
	for len(b.Status().Pods) > 0 {
		next(t, events, func(e volumemanager.Event) bool { return e.Operation == volumemanager.OperationRemove })
	}
	b.requireEmpty()
	assert.DirExists(t, dir)
}
