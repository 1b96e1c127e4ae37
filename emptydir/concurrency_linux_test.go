// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/volume"
)

// atOnce calls f in several goroutines and fails the test if one returns an error.
func atOnce(t *testing.T, f func() error) {
	t.Helper()
	const goroutines = 16
	errs := make([]error, goroutines)
	start := make(chan struct{})
	var working sync.WaitGroup
	for i := range errs {
		working.Go(func() {
			<-start
			errs[i] = f()
		})
	}
	close(start)
	working.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

func TestManyThatSetUpOneVolumeMakeItOnce(t *testing.T) {
	begin(t)
	for _, medium := range []v1.StorageMedium{"", "Memory", "HugePages"} {
		for name, options := range map[string]Options{"": {}, " with options": {NoExec: true}} {
			for _, group := range []*int64{nil, ptr.To[int64](54321)} {
				t.Run(string(medium)+name, func(t *testing.T) {
					f := newFixture(t, v1.EmptyDirVolumeSource{Medium: medium})
					f.restart(options)
					for range 10 {
						atOnce(t, func() error { return f.setUpWith(volume.SetUpOptions{FSGroup: group}) })
						f.wantPresence(volume.Present)
						want := 1
						if medium == "" && options == (Options{}) {
							want = 0
						}
						require.Len(t, mountsAt(t, f.path), want)
						atOnce(t, f.tryTearDown)
						f.wantAbsent(f.path)
						f.wantAbsent(hiddenPath(f.path))
					}
				})
			}
		}
	}
}

func TestSetUpWhileTheDirectoriesAboveAreRemoved(t *testing.T) {
	for _, medium := range []v1.StorageMedium{"", "Memory"} {
		t.Run(string(medium), func(t *testing.T) {
			if medium != "" {
				begin(t)
			}
			f := newFixture(t, v1.EmptyDirVolumeSource{Medium: medium})
			stop := make(chan struct{})
			var removing sync.WaitGroup
			removing.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					for dir := filepath.Dir(f.path); dir != filepath.Dir(f.host.Root); dir = filepath.Dir(dir) {
						_ = os.Remove(dir)
					}
				}
			})
			for range 50 {
				f.setUp()
				f.tearDown()
			}
			close(stop)
			removing.Wait()
		})
	}
}

func TestWhoWaitsForAVolumeStopsWithTheContext(t *testing.T) {
	f := newFixture(t, v1.EmptyDirVolumeSource{})
	unlock, err := f.plugin.busy.lock(t.Context(), f.path)
	require.NoError(t, err)
	unmounter, err := f.plugin.NewUnmounter(f.spec.Name(), f.pod.UID)
	require.NoError(t, err)
	for name, do := range map[string]func(context.Context) error{
		"SetUp":    func(ctx context.Context) error { return f.mounter().SetUp(ctx, volume.SetUpOptions{}) },
		"TearDown": unmounter.TearDown,
	} {
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- do(ctx) }()
		end()
		assert.ErrorIs(t, <-done, context.Canceled, name)
	}
	f.wantAbsent(f.path)
	unlock()
	f.setUp()
	f.tearDown()
	assert.Empty(t, f.plugin.busy.held)
}

func TestAnotherVolumeIsNotWaitedFor(t *testing.T) {
	f := newFixture(t, v1.EmptyDirVolumeSource{})
	unlock, err := f.plugin.busy.lock(t.Context(), f.path)
	require.NoError(t, err)
	defer unlock()
	f.spec = newSpec(v1.EmptyDirVolumeSource{})
	f.spec.Volume.Name = "other"
	f.path = filepath.Join(filepath.Dir(f.path), "other")
	f.setUp()
	f.tearDown()
}
