// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volumekit/volumekit/volume"
)

func secretRef(name string) volume.Reference {
	return volume.Reference{Kind: volume.KindSecret, Namespace: "shop", Name: name}
}

func TestWatchersAreToldOfWhatDiffersOnly(t *testing.T) {
	s := NewStore()
	told := map[string]int{}
	for name, ref := range map[string]volume.Reference{
		"a": secretRef("a"), "b": secretRef("b"), "c": secretRef("c"), "all of shop": secretRef(""), "all of office": {Kind: volume.KindSecret, Namespace: "office"},
		"everywhere": {Kind: volume.KindSecret}, "a config map": {Kind: volume.KindConfigMap, Namespace: "shop", Name: "a"}, "nodes": {Kind: "Node"},
	} {
		stop, ok := s.Watch(ref, func() { told[name]++ })
		require.True(t, ok)
		defer stop()
	}
	step := func(want map[string]int, do func()) {
		t.Helper()
		do()
		assert.Equal(t, want, told)
		clear(told)
	}
	step(map[string]int{"a": 1, "b": 1, "all of shop": 1, "everywhere": 1}, func() { require.NoError(t, s.Set(secret("a", "1"), secret("b", "1"))) })
	step(map[string]int{}, func() { require.NoError(t, s.Set(secret("a", "1"))) })
	step(map[string]int{"b": 1, "c": 1, "all of shop": 1, "everywhere": 1}, func() { require.NoError(t, s.Replace(secret("a", "1"), secret("c", "1"))) })
	step(map[string]int{"a": 1, "all of shop": 1, "everywhere": 1}, func() { s.Remove(secret("a", ""), secret("b", "")) })
	step(map[string]int{"nodes": 1}, func() { require.NoError(t, s.Set(&v1.Node{ObjectMeta: meta("", "n")})) })
	step(map[string]int{}, func() { require.Error(t, s.Set(secret("a", "1"), &v1.Pod{})) })
}

func TestAKindThatIsNotHeldCannotBeWatched(t *testing.T) {
	_, ok := NewStore().Watch(volume.Reference{Kind: "Pod", Namespace: "shop", Name: "a"}, func() {})
	assert.False(t, ok)
}

func TestAWatcherFindsTheNewObjectAndMayUseTheStore(t *testing.T) {
	s := NewStore()
	var found []string
	stop, _ := s.Watch(secretRef("a"), func() {
		now, err := s.Secret(t.Context(), "shop", "a")
		if err != nil {
			found = append(found, "gone")
			return
		}
		found = append(found, string(now.Data["key"]))
		again, _ := s.Watch(secretRef("b"), func() {})
		assert.NoError(t, s.Set(secret("b", "1")))
		again()
	})
	defer stop()
	require.NoError(t, s.Set(secret("a", "1")))
	require.NoError(t, s.Replace(secret("a", "2")))
	s.Remove(secret("a", ""))
	assert.Equal(t, []string{"1", "2", "gone"}, found)
}

func TestStopWaitsForACallThatHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		leave := make(chan struct{})
		calls := 0
		stop, _ := s.Watch(secretRef("a"), func() { calls++; <-leave })
		go func() { assert.NoError(t, s.Set(secret("a", "1"))) }()
		synctest.Wait()
		stopped := make(chan struct{})
		go func() { stop(); close(stopped) }()
		synctest.Wait()
		select {
		case <-stopped:
			t.Error("stop returned while changed was running")
		default:
		}
		require.NoError(t, s.Set(secret("a", "2")), "a change waits for no watcher that is being stopped")
		close(leave)
		<-stopped
		require.NoError(t, s.Set(secret("a", "3")))
		assert.Equal(t, 1, calls)
		stop()
		assert.Empty(t, s.watches)
	})
}

func TestAWatcherMayStopItself(t *testing.T) {
	s := NewStore()
	calls := 0
	var stop func()
	stop, _ = s.Watch(secretRef("a"), func() { calls++; stop() })
	require.NoError(t, s.Set(secret("a", "1")))
	require.NoError(t, s.Set(secret("a", "2")))
	assert.Equal(t, 1, calls)
}

func TestManyMayUseAStoreAtOnce(t *testing.T) {
	s := NewStore()
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 200 {
				name := fmt.Sprintf("s%d", (worker+i)%4)
				var over atomic.Bool
				stop, _ := s.Watch(secretRef(name), func() {
					assert.False(t, over.Load(), "called after stop had returned")
					_, _ = s.Secret(t.Context(), "shop", name)
				})
				claim := &v1.PersistentVolumeClaim{ObjectMeta: meta("shop", name)}
				assert.NoError(t, s.Set(secret(name, fmt.Sprint(worker, i)), claim, claimant(name, name, "")))
				if found, err := s.PersistentVolumeClaim(t.Context(), "shop", name); err == nil && found.Spec.VolumeName != "" {
					assert.Equal(t, name, found.Spec.VolumeName)
				}
				if i%5 == 0 {
					s.Remove(secret(name, ""), claimant(name, "", ""))
				}
				if i%50 == 0 {
					assert.NoError(t, s.Replace(secret(name, "1")))
				}
				stop()
				over.Store(true)
			}
		})
	}
	wg.Wait()
	assert.Empty(t, s.watches)
}

func TestAHundredThousandWatchedObjectsAreToldOneByOne(t *testing.T) {
	s := NewStore()
	const many = 100_000
	all := make([]runtime.Object, many)
	told := make([]int, many)
	for i := range many {
		all[i] = secret(fmt.Sprintf("s%d", i), "1")
		stop, _ := s.Watch(secretRef(fmt.Sprintf("s%d", i)), func() { told[i]++ })
		defer stop()
	}
	require.NoError(t, s.Replace(all...))
	for i := range many {
		if told[i] != 1 {
			t.Fatalf("%d was told %d times", i, told[i])
		}
	}
	// Were one change to look at all watchers, these would take hours.
	for i := range many {
		if err := s.Set(secret(fmt.Sprintf("s%d", i), "2")); err != nil || told[i] != 2 {
			t.Fatalf("%d was told %d times: %v", i, told[i], err)
		}
	}
}
