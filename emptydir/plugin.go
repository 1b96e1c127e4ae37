// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"context"
	"runtime"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/unmounting"
	"github.com/volumekit/volumekit/internal/volumedir"
	"github.com/volumekit/volumekit/volume"
)

const pluginName = "kubernetes.io/empty-dir"

// Options say what the embedder wants of every emptyDir volume. The zero value is what Kubernetes does.
//
// With any of NoExec, NoSUID and NoDev a volume of medium "" is a bind mount of its directory onto itself, which takes CAP_SYS_ADMIN. A Memory or
// HugePages volume that was set up without an option is not changed: SetUp refuses it, and Presence is [volume.Unknown],
// until it is torn down.
type Options struct {
	// NoExec: no file in the volume can be executed.
	NoExec bool

	// NoSUID: the set-user-ID and set-group-ID bits and the capabilities of files in the volume are ignored when they are
	// executed.
	NoSUID bool

	// NoDev: no device node in the volume can be opened.
	NoDev bool

	// HardLimits: the kernel enforces the sizeLimit of a volume of medium "", too. Who writes beyond it is told ENOSPC or EDQUOT
	// at once, and [volume.Metrics] are found out without counting files. Where the file system that holds the host's root has
	// project quotas (ext4 or xfs, mounted with prjquota), that is what it takes, and CAP_SYS_ADMIN. On an ext4 it does not hold
	// for a process with CAP_SYS_RESOURCE, which is in a privileged container only. Elsewhere the volume is the ext4 in a sparse
	// file beside it, on a loop device, which needs mkfs.ext4 and e2fsck (Debian's e2fsprogs) and, at first, about a megabyte.
	// Should the file system that the file is on be full before the volume is, what was written and not synchronised is lost.
	//
	// A volume that was set up without it gets its limit from SetUp if there are project quotas, or if it is empty; else SetUp
	// refuses it. A volume that was set up with it keeps its limit.
	HardLimits bool
}

// flags returns the mount options that the options ask for, nil for none.
func (o Options) flags() []string {
	var flags []string
	if o.NoExec {
		flags = append(flags, "noexec")
	}
	if o.NoSUID {
		flags = append(flags, "nosuid")
	}
	if o.NoDev {
		flags = append(flags, "nodev")
	}
	return flags
}

// Plugin is the plugin "kubernetes.io/empty-dir". Its methods may be called concurrently once Init has returned.
type Plugin struct {
	flags      []string // mount options of every volume
	hardLimits bool
	host       volume.Host

	unmounter *unmounting.Unmounter // of host.Mounter

	tmpfs    volumedir.Tmpfs
	projects projects
}

var _ volume.VolumePlugin = (*Plugin)(nil)

// New returns the plugin.
func New(options Options) *Plugin {
	return &Plugin{flags: options.flags(), hardLimits: options.HardLimits}
}

// Name returns "kubernetes.io/empty-dir".
func (p *Plugin) Name() string { return pluginName }

// Sources returns the emptyDir source.
func (p *Plugin) Sources() []volume.Source {
	return []volume.Source{{Type: volume.SourceEmptyDir}}
}

// CanSupport reports whether the spec's source is an emptyDir and nothing else.
func (p *Plugin) CanSupport(spec *volume.Spec) bool {
	return spec.Source().Type == volume.SourceEmptyDir
}

// Init remembers the host, of which the plugin uses Root, Mounter, Clock and, for hard limits, Exec. The error matches [volume.ErrNotSupported] if
// there are options for which the system has no mounts.
func (p *Plugin) Init(_ context.Context, host volume.Host) error {
	if len(p.flags) > 0 && !haveMounts {
		return volume.Errorf(volume.ErrNotSupported,
			"options of emptyDir volumes (%q) are not supported on %s", p.flags, runtime.GOOS)
	}
	if p.hardLimits && !haveMounts {
		return volume.Errorf(volume.ErrNotSupported, "hard limits of emptyDir volumes are not supported on %s", runtime.GOOS)
	}
	p.host, p.unmounter = host, unmounting.New(host.Mounter)
	return nil
}

// VolumeName returns the name of the volume in the pod: the volume lives and dies with the pod. The error matches
// [volume.ErrNotSupported] if the spec is no emptyDir.
func (p *Plugin) VolumeName(spec *volume.Spec) (string, error) {
	if !p.CanSupport(spec) {
		return "", notEmptyDir(spec)
	}
	return spec.Name(), nil
}

// NewMounter returns the Mounter of the volume, which is a [volume.MetricsProvider] too. The error matches
// [volume.ErrInvalid] or [volume.ErrNotSupported] and names the field if the source asks for what there is not, or if the
// pod's containers leave the page size of huge pages open.
func (p *Plugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	if !p.CanSupport(spec) {
		return nil, notEmptyDir(spec)
	}
	path, err := p.path(pod.UID, spec.Name())
	if err != nil {
		return nil, err
	}
	wanted, err := newRequest(spec.Volume.EmptyDir, pod)
	if err != nil {
		return nil, err
	}
	return &mounter{plugin: p, path: path, wanted: wanted, readOnly: spec.ReadOnly}, nil
}

// NewUnmounter returns the Unmounter of the volume. The error matches [volume.ErrInvalid] if the name or the UID cannot be
// part of a path.
func (p *Plugin) NewUnmounter(name string, podUID types.UID) (volume.Unmounter, error) {
	path, err := p.path(podUID, name)
	if err != nil {
		return nil, err
	}
	return &unmounter{plugin: p, path: path}, nil
}

func (p *Plugin) path(podUID types.UID, name string) (string, error) {
	if err := volume.CheckPodUID(podUID); err != nil {
		return "", err
	}
	if err := volume.CheckName(name); err != nil {
		return "", err
	}
	return p.host.PodVolumeDir(podUID, pluginName, name), nil
}

func notEmptyDir(spec *volume.Spec) error {
	return volume.Errorf(volume.ErrNotSupported, "volume %q is no emptyDir (its source: %s)", spec.Name(), spec.Source())
}
