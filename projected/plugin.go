// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"context"
	"runtime"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/unmounting"
	"github.com/volumekit/volumekit/internal/volumedir"
	"github.com/volumekit/volumekit/volume"
)

// Options say what the embedder wants of every volume. The zero value is what Kubernetes does.
type Options struct {
	// OnDisk keeps the files of volumes in a plain directory, on the file system that holds the root of the host, instead of on a
	// tmpfs. It is for programs that may not mount, and for a root that is on a tmpfs itself. On a disk, secrets stay until their
	// blocks are written again, also after the volume is gone.
	OnDisk bool
}

// Plugin is the plugin of one kind of volume. Its methods may be called concurrently once Init has returned.
type Plugin struct {
	name    string
	source  volume.SourceType
	options Options

	host      volume.Host
	unmounter *unmounting.Unmounter // of host.Mounter
	tmpfs     volumedir.Tmpfs
	memory    memory
}

var _ volume.RemountVolumePlugin = (*Plugin)(nil)

// New returns the plugins "kubernetes.io/configmap", "kubernetes.io/secret", "kubernetes.io/downward-api" and
// "kubernetes.io/projected".
func New(options Options) []volume.VolumePlugin {
	newPlugin := func(name string, source volume.SourceType) *Plugin {
		return &Plugin{name: name, source: source, options: options}
	}
	return []volume.VolumePlugin{
		newPlugin("kubernetes.io/configmap", volume.SourceConfigMap),
		newPlugin("kubernetes.io/secret", volume.SourceSecret),
		newPlugin("kubernetes.io/downward-api", volume.SourceDownwardAPI),
		newPlugin("kubernetes.io/projected", volume.SourceProjected),
	}
}

// Name returns the name of the plugin.
func (p *Plugin) Name() string { return p.name }

// Sources returns the source that the plugin is for.
func (p *Plugin) Sources() []volume.Source {
	return []volume.Source{{Type: p.source}}
}

// CanSupport reports whether the spec's source is the one that the plugin is for, and nothing else.
func (p *Plugin) CanSupport(spec *volume.Spec) bool { return spec.Source().Type == p.source }

// RequiresRemount returns true: what the content comes from can change at any time.
func (p *Plugin) RequiresRemount(*volume.Spec) bool { return true }

// Init remembers the host, of which the plugin uses Root, NodeName, Mounter, Clock and the sources of objects; those may be missing.
// The error matches [volume.ErrNotSupported] on a system that has no tmpfs, unless [Options.OnDisk] is set.
func (p *Plugin) Init(_ context.Context, host volume.Host) error {
	if !p.options.OnDisk && !haveTmpfs {
		return volume.Errorf(volume.ErrNotSupported, "volumes of source %s are kept on a tmpfs, which %s does not have: set OnDisk to keep them in directories",
			p.source, runtime.GOOS)
	}
	p.host, p.unmounter = host, unmounting.New(host.Mounter)
	return nil
}

// VolumeName returns the name of the volume in the pod: the volume lives and dies with the pod. The error matches
// [volume.ErrNotSupported] if the plugin is not for the spec's source.
func (p *Plugin) VolumeName(spec *volume.Spec) (string, error) {
	if !p.CanSupport(spec) {
		return "", p.notMine(spec)
	}
	return spec.Name(), nil
}

// NewMounter returns the Mounter of the volume, which is a [volume.Refresher] and a [volume.MetricsProvider] too. The error matches
// [volume.ErrInvalid] and names the field if the source is not as it must be. That the source needs what the host does not have is found
// out by SetUp.
func (p *Plugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	if !p.CanSupport(spec) {
		return nil, p.notMine(spec)
	}
	path, err := p.path(pod.UID, spec.Name())
	if err != nil {
		return nil, err
	}
	content, err := newContent(pod, &spec.Volume.VolumeSource)
	if err != nil {
		return nil, err
	}
	return &mounter{plugin: p, path: path, pod: pod, name: spec.Name(), content: content}, nil
}

// NewUnmounter returns the Unmounter of the volume. The error matches [volume.ErrInvalid] if the name or the UID cannot be part of a
// path.
func (p *Plugin) NewUnmounter(name string, podUID types.UID) (volume.Unmounter, error) {
	path, err := p.path(podUID, name)
	if err != nil {
		return nil, err
	}
	return &unmounter{plugin: p, path: path, volume: volumeKey{podUID, name}}, nil
}

func (p *Plugin) path(podUID types.UID, name string) (string, error) {
	if err := volume.CheckPodUID(podUID); err != nil {
		return "", err
	}
	if err := volume.CheckName(name); err != nil {
		return "", err
	}
	return p.host.PodVolumeDir(podUID, p.name, name), nil
}

func (p *Plugin) notMine(spec *volume.Spec) error {
	return volume.Errorf(volume.ErrNotSupported, "volume %q has no %s source (its source: %s)", spec.Name(), p.source, spec.Source())
}
