// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/plugins"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volumemanager"
)

const (
	crowdedNode = 500 // pods
	idleTime    = 5 * time.Second
	settleTime  = time.Second // for what is finished after a pod is ready
)

// volumeManagerJobs are those of the managers of a node, each running as in an agent: it is told of pods, and whoever
// starts containers waits for it, one goroutine per pod.
//
// Until a pod is gone, volumekit's manager removes its directory and what was recorded of it too. The peer's unmounts and
// removes the volume; the kubelet removes the rest later, which is not counted. The peer looks every 300 ms whether a pod is
// ready or gone, so its times are multiples of that.
func volumeManagerJobs() []job {
	peer, ours := startPeerVolumeManager, startOurVolumeManager
	return []job{
		{
			tag:    "manager",
			name:   "a pod with one emptyDir on disk, until it is ready",
			target: "100x",
			peer:   untilReady(peer, 1, emptyDirVolume),
			ours:   untilReady(ours, 1, emptyDirVolume),
		},
		{
			tag:    "manager",
			name:   fmt.Sprintf("%d pods with an emptyDir Memory each, until all are ready", crowdedNode),
			target: "6x",
			peer:   untilReady(peer, crowdedNode, memoryVolume),
			ours:   untilReady(ours, crowdedNode, memoryVolume),
		},
		{
			tag:    "manager",
			name:   fmt.Sprintf("%d pods with an emptyDir Memory each, until all are gone", crowdedNode),
			target: "6x",
			peer:   untilGone(peer, crowdedNode, memoryVolume),
			ours:   untilGone(ours, crowdedNode, memoryVolume),
		},
		{
			tag:    "manager",
			name:   fmt.Sprintf("%d pods with an emptyDir Memory each, nothing to do, CPU time per second", crowdedNode),
			target: "under 1 ms",
			metric: cpuPerSecond,
			peer:   idle(peer, crowdedNode, memoryVolume),
			ours:   idle(ours, crowdedNode, memoryVolume),
		},
	}
}

// podVolumes is a volume manager that runs.
type podVolumes interface {
	// setUp tells of the pods and returns when the volumes of all are there.
	setUp(context.Context, []*v1.Pod) error

	// tearDown tells that the pods and their containers are gone and returns when no volume is left of them.
	tearDown(context.Context, []*v1.Pod) error
}

// A starter runs a volume manager on an empty root until the measurement or the test ends.
type starter func(tb testing.TB, root string) podVolumes

func untilReady(start starter, n int, source func() *v1.Volume) func(*testing.B) {
	return func(b *testing.B) {
		ctx, m, newPods := b.Context(), start(b, tempDir(b)), newPodMaker(source)
		for b.Loop() {
			b.StopTimer()
			pods := newPods(n)
			b.StartTimer()
			if err := m.setUp(ctx, pods); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := m.tearDown(ctx, pods); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	}
}

func untilGone(start starter, n int, source func() *v1.Volume) func(*testing.B) {
	return func(b *testing.B) {
		ctx, m, newPods := b.Context(), start(b, tempDir(b)), newPodMaker(source)
		for b.Loop() {
			b.StopTimer()
			pods := newPods(n)
			if err := m.setUp(ctx, pods); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			if err := m.tearDown(ctx, pods); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// cpuPerSecond is the metric, in nanoseconds, that idle reports.
const cpuPerSecond = "cpu-ns/s"

// idle measures what the whole process uses, so that no goroutine of a manager is forgotten.
func idle(start starter, n int, source func() *v1.Volume) func(*testing.B) {
	return func(b *testing.B) {
		ctx, m := b.Context(), start(b, tempDir(b))
		pods := newPodMaker(source)(n)
		if err := m.setUp(ctx, pods); err != nil {
			b.Fatal(err)
		}
		time.Sleep(settleTime)
		debug.FreeOSMemory() // the runtime would do it in the idle time
		var used time.Duration
		b.ResetTimer()
		for b.Loop() {
			before := cpuTime(b)
			time.Sleep(idleTime)
			used += cpuTime(b) - before
		}
		b.ReportMetric(float64(used)/b.Elapsed().Seconds(), cpuPerSecond)
		if err := m.tearDown(ctx, pods); err != nil {
			b.Fatal(err)
		}
	}
}

// cpuTime is what the process has used so far.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// newPodMaker returns a function that makes n pods that it has not made before, with a container each that mounts a volume.
func newPodMaker(source func() *v1.Volume) func(n int) []*v1.Pod {
	made := 0
	return func(n int) []*v1.Pod {
		pods := make([]*v1.Pod, n)
		for i := range pods {
			made++
			pods[i] = newPod(made, *source())
		}
		return pods
	}
}

func newPod(number int, volumes ...v1.Volume) *v1.Pod {
	container := v1.Container{Name: "main"}
	for _, vol := range volumes {
		container.VolumeMounts = append(container.VolumeMounts, v1.VolumeMount{Name: vol.Name, MountPath: "/" + vol.Name})
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default",
			Name:      fmt.Sprintf("bench-%d", number),
			UID:       types.UID(fmt.Sprintf("0b3f6a52-7c1d-4e8f-9a20-%012d", number)),
		},
		Spec: v1.PodSpec{Volumes: volumes, Containers: []v1.Container{container}},
	}
}

// forEachPod calls f for all pods at once.
func forEachPod(pods []*v1.Pod, f func(*v1.Pod) error) error {
	errs := make([]error, len(pods))
	var group sync.WaitGroup
	for i, pod := range pods {
		group.Go(func() { errs[i] = f(pod) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// ourVolumeManager is volumekit's, running.
type ourVolumeManager struct {
	*volumemanager.Manager
}

func startOurVolumeManager(tb testing.TB, root string) podVolumes {
	tb.Helper()
	ctx, stop := context.WithCancel(context.Background())
	tb.Cleanup(stop)
	mgr, err := volume.NewVolumePluginMgr(ctx, volume.Host{Root: root}, plugins.Default())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(mgr.Close)
	manager, err := volumemanager.New(ctx, mgr, volumemanager.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- manager.Run(ctx) }()
	tb.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			tb.Error(err)
		}
		if err := manager.Close(); err != nil {
			tb.Error(err)
		}
	})
	return &ourVolumeManager{manager}
}

func (m *ourVolumeManager) setUp(ctx context.Context, pods []*v1.Pod) error {
	for _, pod := range pods {
		if err := m.SetPod(ctx, pod); err != nil {
			return err
		}
	}
	return forEachPod(pods, func(pod *v1.Pod) error {
		_, err := m.WaitForPod(ctx, pod.UID)
		return err
	})
}

func (m *ourVolumeManager) tearDown(ctx context.Context, pods []*v1.Pod) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	const perPod = 8 // events, more than there are, so that none is lost
	events := m.Events(ctx, perPod*len(pods))
	left := make(map[types.UID]bool, len(pods))
	for _, pod := range pods {
		left[pod.UID] = true
		if err := m.RemovePod(pod.UID); err != nil {
			return err
		}
	}
	for len(left) > 0 {
		event, open := <-events
		switch {
		case !open:
			return ctx.Err()
		case event.Lost > 0:
			return fmt.Errorf("%d events lost", event.Lost)
		case event.Err != nil:
			return event.Err
		case event.Operation == volumemanager.OperationRemove && event.Outcome == volumemanager.OutcomeSucceeded:
			delete(left, event.UID)
		}
	}
	return nil
}
