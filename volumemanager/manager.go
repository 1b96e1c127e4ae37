// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
)

// Options are the options of [New]. The zero value is right for most programs.
type Options struct {
	// WaitForRoot makes New wait, until its context ends, for another manager of the same root to be closed. Without it New
	// fails at once with an error that matches [volume.ErrInUse].
	WaitForRoot bool
}

// Manager sets up and tears down the volumes of pods. There is one manager for a root at a time, in all processes of the
// machine (on systems that can lock a directory). All methods may be called concurrently: pods, and the volumes of one
// pod, proceed side by side; calls for one pod wait for each other.
type Manager struct {
	plugins *volume.VolumePluginMgr
	host    volume.Host
	lock    *os.File
	closed  atomic.Bool

	pods    serial // by UID
	volumes serial // by UID, plugin and name: outlives the call for the pod if a plugin does not return
}

// atOnce bounds the pods, and the volumes of a pod, that one call works on at the same time.
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
	return &Manager{plugins: plugins, host: host, lock: lock}, nil
}

// Close gives the root up. Volumes stay as they are. No other method may be running; what is called later, but Close, returns
// an error that matches [volume.ErrInvalid].
func (m *Manager) Close() error {
	if m.closed.Swap(true) {
		return nil
	}
	removeEmpty(m.host.PodsDir())
	return m.lock.Close()
}

func (m *Manager) checkOpen() error {
	if m.closed.Load() {
		return volume.Errorf(volume.ErrInvalid, "the volume manager of %s has been closed", m.host.Root)
	}
	return nil
}

// PodUIDs lists the pods of which something is recorded, and those whose directory is empty.
func (m *Manager) PodUIDs() ([]types.UID, error) {
	return podUIDs(m.host)
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
	namespace, name := recordsOf(m.host, uid).names()
	return types.NamespacedName{Namespace: namespace, Name: name}
}
