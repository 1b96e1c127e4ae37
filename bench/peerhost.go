// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	kvolume "k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
	"k8s.io/mount-utils"
)

// peerHost is as much of a kubelet as the peer's plugins ask for here. The embedded interfaces are nil: a method that is
// not overridden below panics, so no benchmark can take a shortcut through a stub unnoticed.
type peerHost struct {
	kvolume.VolumeHost
	kvolume.KubeletVolumeHost

	root        string
	mounter     mount.Interface
	allocatable v1.ResourceList
}

// newPeerHost returns a host on root that mounts with mounter. The node's allocatable memory, which the peer takes as the
// largest size of a tmpfs, is 1 TiB, more than any pod asks for here.
func newPeerHost(root string, mounter mount.Interface) *peerHost {
	return &peerHost{
		root:        root,
		mounter:     mounter,
		allocatable: v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Ti")},
	}
}

// newPeerMounter returns the kubelet's mounter without systemd-run: with it, where systemd runs, every mount costs a
// third child process.
func newPeerMounter() mount.Interface {
	return mount.NewWithoutSystemd("")
}

func (h *peerHost) GetMounter() mount.Interface { return h.mounter }

func (h *peerHost) GetHostUtil() hostutil.HostUtils { return hostutil.NewHostUtil() }

func (h *peerHost) GetNodeAllocatable() (v1.ResourceList, error) { return h.allocatable, nil }

func (h *peerHost) GetPluginDir(plugin string) string {
	return filepath.Join(h.root, "plugins", plugin)
}

func (h *peerHost) GetPodVolumeDir(uid types.UID, plugin, volume string) string {
	return filepath.Join(h.root, "pods", string(uid), "volumes", plugin, volume)
}

func (h *peerHost) GetPodPluginDir(uid types.UID, plugin string) string {
	return filepath.Join(h.root, "pods", string(uid), "plugins", plugin)
}
