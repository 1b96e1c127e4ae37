// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/mount-utils"
	"k8s.io/utils/clock"
	"k8s.io/utils/exec"
	utilstrings "k8s.io/utils/strings"

	"github.com/volumekit/volumekit/internal/mounter"
)

// Host is what the program that embeds plugins gives them. Only Root is required. The sources of objects may be nil; a
// plugin that needs a missing one says so in Init.
type Host struct {
	// Root is the directory that holds everything, laid out as the kubelet lays out its own. It is absolute, may be a
	// symbolic link, and is made when it is first needed.
	Root string

	// NodeName is this node's name in the cluster; empty where there is none.
	NodeName types.NodeName

	// Mounter mounts and unmounts. Nil stands for one that makes system calls.
	Mounter mount.Interface

	// Exec runs programs. Nil stands for one that runs them.
	Exec exec.Interface

	// Clock tells the time. Nil stands for the real one.
	Clock clock.WithTicker

	// The rest is where the objects come from that pods refer to. One that is also a [Watcher] is asked again when it says that
	// an object has changed; the others are from time to time.
	Secrets         SecretSource
	ConfigMaps      ConfigMapSource
	Tokens          TokenSource
	TrustBundles    TrustBundleSource
	PodCertificates PodCertificateSource
	Claims          ClaimSource
	Nodes           NodeSource
}

// Complete returns the host with what is nil replaced by its default, or an error that matches [ErrInvalid] and says what
// is wrong. [NewVolumePluginMgr] calls it; only a program that initialises plugins by itself has to.
func (h Host) Complete() (Host, error) {
	if !filepath.IsAbs(h.Root) {
		return Host{}, Errorf(ErrInvalid, "host root %q is not an absolute path", h.Root)
	}
	h.Root = filepath.Clean(h.Root)
	if h.Mounter == nil {
		h.Mounter = mounter.New()
	}
	if h.Exec == nil {
		h.Exec = exec.New()
	}
	if h.Clock == nil {
		h.Clock = clock.RealClock{}
	}
	return h, nil
}

// The directories below are the kubelet's. Their callers have checked the names (see [CheckPodUID] and [CheckName]).

// PodsDir holds one directory per pod.
func (h Host) PodsDir() string {
	return filepath.Join(h.Root, "pods")
}

// PodDir holds everything that belongs to one pod.
func (h Host) PodDir(uid types.UID) string {
	return filepath.Join(h.Root, "pods", string(uid))
}

// PodVolumesDir holds one directory per plugin that serves the pod, and below it one per volume.
func (h Host) PodVolumesDir(uid types.UID) string {
	return filepath.Join(h.Root, "pods", string(uid), "volumes")
}

// PodVolumeDir is where one volume of a pod is mounted, "pods/UID/volumes/kubernetes.io~empty-dir/NAME".
func (h Host) PodVolumeDir(uid types.UID, plugin, name string) string {
	return filepath.Join(h.Root, "pods", string(uid), "volumes", utilstrings.EscapeQualifiedName(plugin), name)
}

// PodVolumeDevicesDir is where the links to a plugin's raw block devices for one pod are.
func (h Host) PodVolumeDevicesDir(uid types.UID, plugin string) string {
	return filepath.Join(h.Root, "pods", string(uid), "volumeDevices", utilstrings.EscapeQualifiedName(plugin))
}

// PodSubpathsDir is where the subPath mounts of one pod are.
func (h Host) PodSubpathsDir(uid types.UID) string {
	return filepath.Join(h.Root, "pods", string(uid), "volume-subpaths")
}

// PluginDir is where a plugin keeps what does not belong to one pod, "plugins/kubernetes.io/csi".
func (h Host) PluginDir(plugin string) string {
	return filepath.Join(h.Root, "plugins", plugin)
}

// PluginMountsDir is where a plugin mounts devices for all pods.
func (h Host) PluginMountsDir(plugin string) string {
	return filepath.Join(h.Root, "plugins", plugin, "mounts")
}

// PluginVolumeDevicesDir is where a plugin maps raw block devices for all pods.
func (h Host) PluginVolumeDevicesDir(plugin string) string {
	return filepath.Join(h.Root, "plugins", plugin, "volumeDevices")
}
