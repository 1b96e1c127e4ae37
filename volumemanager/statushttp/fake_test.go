// SPDX-License-Identifier: Apache-2.0

package statushttp

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	"github.com/volumekit/volumekit/volumemanager"
)

func TestMain(m *testing.M) { os.Exit(volumetest.Main(m)) }

// fakeManager is in whatever state a test wants, also one that a real manager seldom is in.
type fakeManager struct {
	mu     sync.Mutex
	status volumemanager.Status

	events chan volumemanager.Event
}

func newFakeManager(status volumemanager.Status) *fakeManager {
	return &fakeManager{status: status, events: make(chan volumemanager.Event)}
}

func (f *fakeManager) Status() volumemanager.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

// Events hands on what tests send to f.events. What was sent has been seen when the handler is closed.
func (f *fakeManager) Events(ctx context.Context, _ int) <-chan volumemanager.Event {
	context.AfterFunc(ctx, func() { close(f.events) })
	return f.events
}

// newTestHandler returns a handler that is closed when the test ends.
func newTestHandler(t *testing.T, f *fakeManager, options Options) *Handler {
	t.Helper()
	h := newHandler(f, options)
	t.Cleanup(h.Close)
	return h
}

var now = time.Date(2026, 12, 1, 10, 30, 0, 0, time.UTC)

const (
	emptyDir = "kubernetes.io/empty-dir"
	nfs      = "kubernetes.io/nfs"
)

// atWork returns the status of a manager that does its work, with the pods.
func atWork(pods ...volumemanager.PodStatus) volumemanager.Status {
	return volumemanager.Status{Time: now, Running: true, Recovered: true, Complete: true, Pods: pods}
}

// troubled returns the status of a manager that has one of everything.
func troubled() volumemanager.Status {
	return atWork(
		volumemanager.PodStatus{Namespace: "shop", Name: "web-1", UID: "uid-b", Volumes: []volumemanager.VolumeStatus{
			{Name: "cache", Plugin: emptyDir, Path: "/var/lib/agent/pods/uid-b/volumes/kubernetes.io~empty-dir/cache", State: volumemanager.Mounted,
				Metrics: &volume.Metrics{Time: now.Add(-20 * time.Second), Used: 4096, InodesUsed: 2, Capacity: 1 << 30, Available: 1 << 29, Limit: 8192}},
			{Name: "etc", Plugin: "kubernetes.io/host-path", Path: "/etc", ReadOnly: true, State: volumemanager.Mounted, Warnings: []string{"it is on a disk that is nearly full"}},
		}},
		volumemanager.PodStatus{Namespace: "shop", Name: "web-0", UID: "uid-a",
			Volumes: []volumemanager.VolumeStatus{
				{Name: "data", Plugin: nfs, Path: "/var/lib/agent/pods/uid-a/volumes/kubernetes.io~nfs/data", State: volumemanager.Pending,
					Err:     &volume.Error{Op: "set up", Volume: "data", Pod: "shop/web-0", Err: errors.New("the server does not answer")},
					Running: &volumemanager.RunningOperation{Operation: volumemanager.OperationSetUp, Since: now.Add(-5 * time.Minute), Abandoned: true, FilesSeen: 12_000, FilesChanged: 8_000}},
				{Name: "settings", State: volumemanager.Failed, Failures: 3, NextTry: now.Add(40 * time.Second),
					Err: errors.New("source configMap is not served here")},
			},
			Containers: []volumemanager.ContainerStatus{{Name: "nginx", Missing: []volumemanager.MissingMount{
				{Volume: "data", Destination: "/data"},
				{Volume: "cache", Destination: "/cache", Err: errors.New(`subPath "../x" leads outside`)},
			}}}},
		volumemanager.PodStatus{Namespace: "shop", Name: "old", UID: "uid-c", Leaving: true, Volumes: []volumemanager.VolumeStatus{
			{Name: "scratch", Plugin: emptyDir, State: volumemanager.Pending,
				Running: &volumemanager.RunningOperation{Operation: volumemanager.OperationTearDown, Since: now.Add(-2 * time.Second)}},
		}},
	)
}
