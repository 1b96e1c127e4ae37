// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/volumekit/volumekit/internal/turns"
	"github.com/volumekit/volumekit/internal/usage"
	"github.com/volumekit/volumekit/volume"
)

// Options are the options of [New]. The zero value is right for most programs.
type Options struct {
	// Containers tells whether the containers of a pod still run, on which nothing of it is taken away. Without it the
	// program that embeds the manager sees to that before it says that a pod is not wanted any more.
	Containers ContainerState

	// Timeout is how long [Manager.Run] lets one operation on one volume take. It is uncertain then what has come of it, and
	// it is tried again. Zero stands for two minutes.
	Timeout time.Duration

	// Backoff is how long Run waits before it tries again what has failed, for each volume on its own. The zero value stands
	// for the kubelet's: half a second, doubled with each failure, to two minutes and two seconds.
	Backoff wait.Backoff

	// RefreshPeriod is how often Run refreshes a volume whose content comes from objects that cannot be watched, because their
	// source in the host is no [volume.Watcher]. Up to half as much again is added. Zero stands for a minute.
	RefreshPeriod time.Duration

	// Usage says how Run measures how full volumes are.
	Usage UsageOptions

	// Resync is how often Run verifies everything, in case that it missed an event. Zero stands for ten minutes.
	Resync time.Duration

	// SELinux labels the volumes for containers. Nil stands for the kernel's, if there is one.
	SELinux SELinux

	// WaitForRoot makes New wait, until its context ends, for another manager of the same root to be closed. Without it New
	// fails at once with an error that matches [volume.ErrInUse].
	WaitForRoot bool
}

// Manager sets up and tears down the volumes of pods. There is one manager for a root at a time, in all processes of the
// machine (on systems that can lock a directory). All methods may be called concurrently: pods, and the volumes of one
// pod, proceed side by side; calls for one pod wait for each other.
type Manager struct {
	plugins  *volume.VolumePluginMgr
	host     volume.Host
	resolver resolver
	options  Options
	lock     *os.File
	closed   atomic.Bool

	events  broadcast
	changes *changes
	meter   *usage.Meter[*managedVolume, volume.Metrics]
	slots   slots
	turns   turns.Turns // by UID: the right to settle a pod

	// deviceTurns are the rights to work on what several pods share, by [deviceID.key].
	deviceTurns turns.Turns

	// settlers are the goroutines of Run that settle pods.
	settlers sync.WaitGroup

	// mu guards what follows, and the pods themselves. It is not held while anything is waited for or read from disk.
	mu   sync.Mutex
	pods map[types.UID]*managedPod
	// keptOut are the volumes that could not be set up because of how another pod uses them.
	keptOut map[*managedVolume]*managedPod
	// attached are the devices that this manager has attached, or found to be.
	attached map[deviceID]bool
	// complete says that all wanted pods have been told; recovered, that what was left is in pods.
	complete, recovered bool
	// running says that Run is at work, with the context runContext; stopping, that it has ended but for those who settle pods.
	running    bool
	stopping   bool
	runContext context.Context
}

// atOnce bounds what is done at the same time, but for what takes long.
const atOnce = 64

// New makes the root directory of the plugins' host if it is missing, locks it, and returns its manager. Nothing else on
// disk is touched: what an earlier process left is taken over by the calls for its pods.
func New(ctx context.Context, plugins *volume.VolumePluginMgr, options Options) (*Manager, error) {
	if plugins == nil {
		return nil, volume.Errorf(volume.ErrInvalid, "the plugin manager is nil")
	}
	host := plugins.Host()
	if err := os.MkdirAll(host.Root, 0o750); err != nil {
		return nil, fmt.Errorf("make root directory %s: %w", host.Root, err)
	}
	lock, err := lockRoot(ctx, host.Root, options.WaitForRoot)
	if err != nil {
		return nil, err
	}
	options = options.complete()
	meter := usage.NewMeter[*managedVolume, volume.Metrics](usage.MeterOptions{Clock: host.Clock, Period: options.Usage.Period})
	return &Manager{plugins: plugins, host: host, resolver: resolver{plugins, options.SELinux}, options: options, meter: meter, lock: lock, slots: make(slots, atOnce), changes: newChanges(),
		pods: make(map[types.UID]*managedPod), keptOut: make(map[*managedVolume]*managedPod), attached: make(map[deviceID]bool)}, nil
}

// complete returns the options with their defaults.
func (o Options) complete() Options {
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Minute
	}
	if o.Backoff == (wait.Backoff{}) {
		o.Backoff = defaultBackoff
	}
	o.SELinux = orKernel(o.SELinux)
	if o.RefreshPeriod <= 0 {
		o.RefreshPeriod = time.Minute
	}
	if o.Resync <= 0 {
		o.Resync = 10 * time.Minute
	}
	return o
}

// Close gives the root up. Volumes stay as they are. No other method may be running; what is called later, but Close, returns
// an error that matches [volume.ErrInvalid].
func (m *Manager) Close() error {
	if m.closed.Swap(true) {
		return nil
	}
	return errors.Join(removeIfEmpty(m.host.PodsDir()), m.lock.Close())
}

func (m *Manager) checkOpen() error {
	if m.closed.Load() {
		return volume.Errorf(volume.ErrInvalid, "the volume manager of %s has been closed", m.host.Root)
	}
	return nil
}

// PodUIDs lists the pods of which something is recorded, and those whose directory is empty.
func (m *Manager) PodUIDs() ([]types.UID, error) {
	uids, _, err := podUIDs(m.host)
	return uids, err
}

// FindPod returns the UIDs under which a pod of that name is recorded: none, one, or several if the pod was replaced by
// another of the same name before it was torn down.
func (m *Manager) FindPod(namespace, name string) ([]types.UID, error) {
	uids, err := m.PodUIDs()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(uids, func(uid types.UID) bool {
		return m.PodName(uid) != types.NamespacedName{Namespace: namespace, Name: name}
	}), nil
}

// PodName returns the name under which the pod is recorded; it is empty if nothing is recorded, or the records are damaged.
func (m *Manager) PodName(uid types.UID) types.NamespacedName {
	found, err := readRecord(m.host, uid)
	if err != nil {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: found.Pod.Namespace, Name: found.Pod.Name}
}

// Status returns what the manager holds, from memory: it does no I/O and waits for nothing.
func (m *Manager) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	status := Status{Time: m.host.Clock.Now(), Running: m.running, Recovered: m.recovered, Complete: m.complete}
	for _, uid := range slices.Sorted(maps.Keys(m.pods)) {
		status.Pods = append(status.Pods, m.pods[uid].status())
	}
	return status
}
