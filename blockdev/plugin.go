// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/provisioning"
	"github.com/volumekit/volumekit/internal/turns"
	"github.com/volumekit/volumekit/internal/unmounting"
	"github.com/volumekit/volumekit/volume"
)

// Name is the name of the plugin. It is the kubelet's.
const Name = "kubernetes.io/local-volume"

// DefaultProvisionerName is what [Options].ProvisionerName stands for when it is empty.
const DefaultProvisionerName = "volumekit.io/blockdev"

// Options are the options of [New]. The zero value serves every path, as the kubelet does, and provisions nothing.
type Options struct {
	// BasePaths are the directories in which devices are provisioned and deleted, absolute and none inside another. The first one
	// is used by a StorageClass without the parameter directory. A base path that does not exist is made when it is first
	// provisioned in, mode 0755. Without base paths nothing is provisioned and nothing is deleted.
	BasePaths []string

	// ProvisionerName is written on what is provisioned (annotation pv.kubernetes.io/provisioned-by), and what does not
	// carry it is not deleted. Empty stands for [DefaultProvisionerName].
	ProvisionerName string
}

// Plugin serves local volumes. All methods may be called concurrently once Init has returned nil.
type Plugin struct {
	options   Options
	bases     []string // cleaned
	basesErr  error
	host      volume.Host
	unmounter *unmounting.Unmounter

	// devices are worked on by one call at a time, whatever volumes they are of.
	devices turns.Turns
}

var (
	_ volume.PersistentVolumePlugin      = (*Plugin)(nil)
	_ volume.MountOptionsVolumePlugin    = (*Plugin)(nil)
	_ volume.DeviceMountableVolumePlugin = (*Plugin)(nil)
	_ volume.BlockVolumePlugin           = (*Plugin)(nil)
)

// New returns the plugin. What is wrong with the options is the error of Init.
func New(options Options) *Plugin {
	if options.ProvisionerName == "" {
		options.ProvisionerName = DefaultProvisionerName
	}
	p := &Plugin{options: options}
	p.bases, p.basesErr = provisioning.CleanBases(options.BasePaths)
	return p
}

// Name returns "kubernetes.io/local-volume".
func (p *Plugin) Name() string { return Name }

// Sources returns the local field of PersistentVolumes.
func (p *Plugin) Sources() []volume.Source { return []volume.Source{{Type: volume.SourceLocal}} }

// CanSupport reports whether spec has a local source.
func (p *Plugin) CanSupport(spec *volume.Spec) bool { return localOf(spec) != nil }

// Init keeps the host. The error matches [volume.ErrInvalid] and says what is wrong with the options that [New] was given. It does
// no I/O.
func (p *Plugin) Init(_ context.Context, host volume.Host) error {
	if p.basesErr != nil {
		return p.basesErr
	}
	p.host = host
	p.unmounter = unmounting.New(host.Mounter)
	return nil
}

// VolumeName returns the name of the PersistentVolume, as the kubelet does.
func (p *Plugin) VolumeName(spec *volume.Spec) (string, error) {
	if localOf(spec) == nil {
		return "", errNoSource(spec)
	}
	return spec.Name(), nil
}

// AccessModes returns ReadWriteOnce and ReadWriteOncePod: what is local is on one node.
func (p *Plugin) AccessModes() []v1.PersistentVolumeAccessMode {
	return []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadWriteOncePod}
}

// SupportsMountOptions returns true. Those that a directory, which is bound, cannot have are refused when it is set up.
func (p *Plugin) SupportsMountOptions(*volume.Spec) bool { return true }

// NewMounter returns the Mounter of one volume for one pod.
func (p *Plugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	source, err := checkSpec(spec)
	if err == nil {
		err = errors.Join(volume.CheckName(spec.Name()), volume.CheckPodUID(pod.UID))
	}
	if err == nil && isBlock(spec) {
		err = volume.Errorf(volume.ErrInvalid, "PersistentVolume %q has the volumeMode Block: it is mapped, not mounted", spec.Name())
	}
	if err != nil {
		return nil, err
	}
	return &mounter{plugin: p, source: source, path: p.host.PodVolumeDir(pod.UID, Name, spec.Name()), deviceMount: p.deviceMountPath(spec), readOnly: spec.ReadOnly || source.readOnly}, nil
}

// NewUnmounter returns the Unmounter of one volume for one pod.
func (p *Plugin) NewUnmounter(name string, podUID types.UID) (volume.Unmounter, error) {
	if err := errors.Join(volume.CheckName(name), volume.CheckPodUID(podUID)); err != nil {
		return nil, err
	}
	return &unmounter{plugin: p, path: p.host.PodVolumeDir(podUID, Name, name)}, nil
}
