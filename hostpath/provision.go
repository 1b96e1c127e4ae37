// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/provisioning"
	"github.com/volumekit/volumekit/volume"
)

// NewProvisioner returns a Provisioner that makes one directory per claim, on Linux. The error matches
// [volume.ErrNotSupported] if [Options].BasePaths is empty.
//
// These are the parameters of a StorageClass; any other is refused by name:
//
//	basePath     one of Options.BasePaths or a directory below one; the first of them by default
//	pathPattern  the directory's path below basePath, "${.PV.name}" by default
//	mode         its mode in octal, exactly, "0777" by default: containers run as any user, and fsGroup has no effect
//	uid, gid     its owner and group, those of the process by default
//	hardLimit    "true" has the kernel enforce the claim's size: by a project quota where the file system has that, else by a
//	             file system of the directory's own in a file beside it, which stays mounted until the volume is deleted
//
// In pathPattern ${.PV.name}, ${.PVC.name}, ${.PVC.namespace}, ${.PVC.labels.KEY} and ${.PVC.annotations.KEY} are
// replaced. A label or annotation that the claim does not have is an error. The result may have slashes; it is refused if
// an element is empty, ".", "..", longer than 255 bytes, or holds a control character. Directories above the volume's are
// made with mode 0755. Anything that is a symbolic link or a mount point on the way from the base path is refused.
//
// A directory is never shared: who it belongs to is recorded in basePath/.volumekit-hostpath, before it is made. A claim
// is refused whose directory belongs to another volume (this matches [volume.ErrInUse]), lies inside or above that of another
// (likewise), or exists already although it was not provisioned. After a crash the same call goes on, and a claim whose
// labels have changed since keeps the directory that it has.
//
// The PersistentVolume has type Directory, so that a pod fails rather than starts with an empty directory if it vanishes.
// Its capacity is what the claim requests; without hardLimit nothing enforces it, and it is not compared with the free space. It is
// bound to this node by the label kubernetes.io/hostname, if [volume.Host].NodeName is set: the label's value is taken
// from the selected node or [volume.Host].Nodes, and is the node's name where neither has it. allowedTopologies are
// compared with the labels from there too. SELinux labels are not set.
//
// Refused by name, with an error that matches [volume.ErrInvalid] or [volume.ErrNotSupported], are: access modes other than
// ReadWriteOnce, volumeMode Block, a selector, a data source, a VolumeAttributesClass, mountOptions of the class, a
// reclaimPolicy other than Delete and Retain, a node other than this one, and allowedTopologies that leave this one out.
func (p *Plugin) NewProvisioner() (volume.Provisioner, error) {
	if len(p.bases) == 0 {
		return nil, volume.Errorf(volume.ErrNotSupported, "plugin %s has no base path to provision in: set hostpath.Options.BasePaths", Name)
	}
	return provisioner{p}, nil
}

type provisioner struct{ plugin *Plugin }

// Provision makes the directory of a claim, see [Plugin.NewProvisioner].
func (r provisioner) Provision(ctx context.Context, options volume.ProvisionOptions) (*v1.PersistentVolume, error) {
	p := r.plugin
	if err := volume.CheckName(options.PVName); err != nil {
		return nil, err
	}
	if err := p.provisioned().Check(options.Claim, options.Class); err != nil {
		return nil, err
	}
	parameters, err := parseParameters(options.Class.Parameters)
	if err != nil {
		return nil, fmt.Errorf("StorageClass %s: %w", options.Class.Name, err)
	}
	wanted, err := p.place(parameters, options)
	if err != nil {
		return nil, err
	}
	affinity, err := provisioning.NodeAffinity(ctx, p.host, options)
	if err != nil {
		return nil, err
	}
	made, err := await(ctx, &p.stuck, "make directory", wanted.path(), func() (location, error) {
		if err := p.allow(wanted.path()); err != nil {
			return location{}, err
		}
		return wanted.make(options.PVName, parameters)
	})
	if err != nil {
		return nil, fmt.Errorf("provision directory %q: %w", wanted.path(), err)
	}
	pv := p.persistentVolume(options, made.path(), affinity)
	if parameters.hardLimit {
		pv.Annotations[annotationHardLimit] = "true"
		if err := p.limit(ctx, pv, parameters); err != nil {
			return nil, fmt.Errorf("provision directory %q: %w", made.path(), errors.Join(err, p.undoProvision(ctx, pv)))
		}
	}
	return pv, nil
}

// allow refuses a path that a Mounter would refuse.
func (p *Plugin) allow(path string) error {
	if p.allowed == nil {
		return nil
	}
	where, err := resolve(path)
	if err != nil {
		return err
	}
	_, err = p.allowed.admit(where.path)
	return err
}

// place decides where the directory of the claim is.
func (p *Plugin) place(parameters parameters, options volume.ProvisionOptions) (location, error) {
	base := parameters.basePath
	if base == "" {
		base = p.bases[0]
	}
	base = filepath.Clean(base)
	if !slices.ContainsFunc(p.bases, func(b string) bool { return base == b || provisioning.IsBelow(base, b) }) {
		return location{}, volume.Errorf(volume.ErrInvalid, "StorageClass %s: parameter basePath=%q is not one of the plugin's base paths, nor below one (%q)", options.Class.Name, base, p.bases)
	}
	rendered, err := render(parameters.pattern, options.PVName, options.Claim)
	if err != nil {
		return location{}, fmt.Errorf("StorageClass %s, claim %s/%s: %w", options.Class.Name, options.Claim.Namespace, options.Claim.Name, err)
	}
	return p.locate(base + "/" + rendered)
}

// undoProvision takes away a directory that could not be given its limit, unless that may be there all the same.
func (p *Plugin) undoProvision(ctx context.Context, pv *v1.PersistentVolume) error {
	if ctx.Err() != nil {
		return nil // the same call goes on
	}
	return deleter{p}.Delete(ctx, pv)
}

// provisioned is what the plugin provisions.
func (p *Plugin) provisioned() provisioning.Kind {
	return provisioning.Kind{Name: "hostPath", AccessModes: p.AccessModes(), VolumeModes: []v1.PersistentVolumeMode{v1.PersistentVolumeFilesystem}}
}

func (p *Plugin) persistentVolume(options volume.ProvisionOptions, path string, affinity *v1.VolumeNodeAffinity) *v1.PersistentVolume {
	kind := v1.HostPathDirectory
	pv := p.provisioned().NewPersistentVolume(options, p.provisioner)
	pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path, Type: &kind}}
	pv.Spec.NodeAffinity = affinity
	return pv
}
