// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/provisioning"
	"github.com/volumekit/volumekit/volume"
)

// Name is the name of the plugin. It is the kubelet's.
const Name = "kubernetes.io/host-path"

// DefaultProvisionerName is what [Options].ProvisionerName stands for when it is empty.
const DefaultProvisionerName = "volumekit.io/hostpath"

// Options are the options of [New]. The zero value serves every path, as the kubelet does, and provisions nothing.
type Options struct {
	// AllowedPaths are the only places of the host that volumes may lead to. Nil allows every place; a list that is empty
	// but not nil allows none. They hold for volumes of pods and for PersistentVolumes. See the package documentation for
	// what they cannot do.
	AllowedPaths []AllowedPath

	// BasePaths are the directories in which directories are provisioned and deleted, absolute and none inside another.
	// The first one is used by a StorageClass without the parameter basePath. A base path that does not exist is made
	// when it is first provisioned in, mode 0755; it may be a symbolic link. Without base paths nothing is provisioned
	// and nothing is deleted.
	BasePaths []string

	// ProvisionerName is written on what is provisioned (annotation pv.kubernetes.io/provisioned-by), and what does not
	// carry it is not deleted. Empty stands for [DefaultProvisionerName].
	ProvisionerName string
}

// Plugin serves hostPath volumes. All methods may be called concurrently once Init has returned nil.
type Plugin struct {
	host        volume.Host
	allowed     allowList // nil allows everything
	bases       []string  // cleaned
	provisioner string
	optionsErr  error
	stuck       stuck
}

var (
	_ volume.PersistentVolumePlugin    = (*Plugin)(nil)
	_ volume.MountOptionsVolumePlugin  = (*Plugin)(nil)
	_ volume.ProvisionableVolumePlugin = (*Plugin)(nil)
	_ volume.DeletableVolumePlugin     = (*Plugin)(nil)
)

// New returns the plugin. What is wrong with the options is the error of Init.
func New(options Options) *Plugin {
	allowed, allowedErr := newAllowList(options.AllowedPaths)
	bases, basesErr := provisioning.CleanBases(options.BasePaths)
	p := &Plugin{
		allowed:     allowed,
		bases:       bases,
		provisioner: options.ProvisionerName,
		optionsErr:  errors.Join(allowedErr, basesErr),
	}
	if p.provisioner == "" {
		p.provisioner = DefaultProvisionerName
	}
	return p
}

// Name returns "kubernetes.io/host-path".
func (p *Plugin) Name() string { return Name }

// Sources returns the hostPath field of pods and PersistentVolumes.
func (p *Plugin) Sources() []volume.Source {
	return []volume.Source{{Type: volume.SourceHostPath}}
}

// CanSupport reports whether spec has a hostPath source.
func (p *Plugin) CanSupport(spec *volume.Spec) bool {
	return hostPathOf(spec) != nil
}

// Init keeps the host. The error matches [volume.ErrInvalid] and says what is wrong with the options that [New] was given.
// It does no I/O.
func (p *Plugin) Init(_ context.Context, host volume.Host) error {
	if p.optionsErr != nil {
		return p.optionsErr
	}
	p.host = host
	return nil
}

// VolumeName returns the path as the source gives it.
func (p *Plugin) VolumeName(spec *volume.Spec) (string, error) {
	source := hostPathOf(spec)
	if source == nil {
		return "", errNoSource(spec)
	}
	return source.Path, nil
}

// AccessModes returns ReadWriteOnce, which is what Kubernetes says of hostPath: the directory is on one node.
func (p *Plugin) AccessModes() []v1.PersistentVolumeAccessMode {
	return []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
}

// SupportsMountOptions returns false: nothing is mounted.
func (p *Plugin) SupportsMountOptions(*volume.Spec) bool { return false }

// NewMounter returns the Mounter of the volume. It does no I/O.
//
// The path must be absolute and have no ".." element and no NUL byte, and the type must be one of Kubernetes; otherwise the
// error matches [volume.ErrInvalid]. A PersistentVolume with mountOptions or volumeMode Block is refused with an error
// that matches [volume.ErrNotSupported]. The pod is not looked at and may be nil.
func (p *Plugin) NewMounter(spec *volume.Spec, _ *v1.Pod) (volume.Mounter, error) {
	source := hostPathOf(spec)
	if source == nil {
		return nil, errNoSource(spec)
	}
	if err := checkSource(source); err != nil {
		return nil, err
	}
	if err := checkPersistentVolume(spec.PersistentVolume); err != nil {
		return nil, err
	}
	m := newMounter(p, source, spec.ReadOnly)
	if p.isLimited(spec.PersistentVolume) {
		return &limitedMounter{mounter: m, plugin: p, pv: spec.PersistentVolume}, nil
	}
	return m, nil
}

// NewUnmounter returns an Unmounter that does nothing: there is nothing to take away. Its Path is empty, since a name does
// not tell the path.
func (p *Plugin) NewUnmounter(name string, podUID types.UID) (volume.Unmounter, error) {
	return unmounter{}, nil
}

type unmounter struct{}

func (unmounter) Path() string                                           { return "" }
func (unmounter) TearDown(context.Context, volume.TearDownOptions) error { return nil }
