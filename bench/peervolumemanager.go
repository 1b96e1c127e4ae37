// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/record"
	kconfig "k8s.io/kubernetes/pkg/kubelet/config"
	kpod "k8s.io/kubernetes/pkg/kubelet/pod"
	kvolumemanager "k8s.io/kubernetes/pkg/kubelet/volumemanager"
	kvolume "k8s.io/kubernetes/pkg/volume"
	kemptydir "k8s.io/kubernetes/pkg/volume/emptydir"
	khostpath "k8s.io/kubernetes/pkg/volume/hostpath"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
	"k8s.io/kubernetes/pkg/volume/util/subpath"
	"k8s.io/kubernetes/pkg/volume/util/volumepathhandler"
)

// peerVolumeManager is the kubelet's volume manager, running, with the parts of a kubelet that it asks for pods and their
// state. It has no API server, as a standalone kubelet: pods without claims need none.
type peerVolumeManager struct {
	kvolumemanager.VolumeManager

	pods   kpod.Manager
	states *peerPodStates
}

// startPeerVolumeManager runs the peer's manager on root until the measurement or the test ends.
func startPeerVolumeManager(tb testing.TB, root string) podVolumes {
	tb.Helper()
	podsDir := filepath.Join(root, "pods")
	if err := os.Mkdir(podsDir, 0o750); err != nil {
		tb.Fatal(err)
	}
	mounter := newPeerMounter()
	host := &peerManagerHost{peerHost: newPeerHost(root, mounter), subpather: subpath.New(mounter)}
	plugins := &kvolume.VolumePluginMgr{}
	builtIn := append(kemptydir.ProbeVolumePlugins(), khostpath.ProbeVolumePlugins(kvolume.VolumeConfig{})...)
	if err := plugins.InitPlugins(builtIn, nil, host); err != nil {
		tb.Fatal(err)
	}
	pods, states := kpod.NewBasicPodManager(), &peerPodStates{gone: sets.New[types.UID]()}
	m := &peerVolumeManager{pods: pods, states: states, VolumeManager: kvolumemanager.NewVolumeManager(
		true, // the attach/detach controller attaches
		"bench",
		pods,
		states,
		nil, // the API server
		plugins,
		mounter,
		hostutil.NewHostUtil(),
		podsDir,
		&record.FakeRecorder{},
		volumepathhandler.NewBlockVolumePathHandler(),
		nil, 0, // the health of CSI volumes
	)}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.Run(ctx, kconfig.NewSourcesReady(func(sets.Set[string]) bool { return true }))
	}()
	tb.Cleanup(func() {
		stop()
		<-ended
	})
	return m
}

// setUp waits for each pod as its worker in the kubelet does before it starts containers.
func (m *peerVolumeManager) setUp(ctx context.Context, pods []*v1.Pod) error {
	for _, pod := range pods {
		m.pods.AddPod(pod)
	}
	return forEachPod(pods, func(pod *v1.Pod) error { return m.WaitForAttachAndMount(ctx, pod) })
}

// tearDown waits for each pod as its worker in the kubelet does once the containers are gone.
func (m *peerVolumeManager) tearDown(ctx context.Context, pods []*v1.Pod) error {
	m.states.markGone(pods)
	if err := m.WaitForAllPodsUnmount(ctx, pods); err != nil {
		return err
	}
	for _, pod := range pods {
		m.pods.RemovePod(pod)
	}
	return nil
}

// peerPodStates answers which pods have no containers any more.
type peerPodStates struct {
	mu   sync.Mutex
	gone sets.Set[types.UID]
}

func (s *peerPodStates) markGone(pods []*v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pod := range pods {
		s.gone.Insert(pod.UID)
	}
}

func (s *peerPodStates) ShouldPodContainersBeTerminating(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone.Has(uid)
}

func (s *peerPodStates) ShouldPodRuntimeBeRemoved(uid types.UID) bool {
	return s.ShouldPodContainersBeTerminating(uid)
}

// peerManagerHost is a peerHost with what the manager asks for beside the plugins.
type peerManagerHost struct {
	*peerHost

	subpather subpath.Interface
}

func (h *peerManagerHost) GetSubpather() subpath.Interface { return h.subpather }
