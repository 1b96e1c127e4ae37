// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/provisioning"
	"github.com/volumekit/volumekit/internal/removal"
	"github.com/volumekit/volumekit/volume"
)

// NewDeleter returns a Deleter of what a Provisioner of the same options has made, on Linux. The error matches
// [volume.ErrNotSupported] if [Options].BasePaths is empty.
//
// What a PersistentVolume says is not trusted, since it may have been edited: the records in the base path decide. Delete
// refuses, with an error that matches [volume.ErrInvalid] and before anything is touched, a volume
//   - without hostPath, or without the annotation that names this provisioner;
//   - whose path is not below a base path, or reaches there through a symbolic link, or is one;
//   - whose directory was not provisioned, or is not where it was provisioned;
//   - whose node affinity is for another node.
//
// A directory that belongs to another volume is refused with an error that matches [volume.ErrInUse].
//
// It removes the directory, then its records, then the directories above that are empty and look as they were provisioned,
// up to the base path, which stays. It follows no symbolic link. What is mounted in the directory is neither entered nor
// unmounted: the rest is removed, and the error matches [volume.ErrInUse] and names the mount points. It succeeds for a
// directory that is gone already, but not if the base path is missing: the disk that holds it may not be mounted.
func (p *Plugin) NewDeleter() (volume.Deleter, error) {
	if len(p.bases) == 0 {
		return nil, volume.Errorf(volume.ErrNotSupported, "plugin %s has no base path to delete from: set hostpath.Options.BasePaths", Name)
	}
	return deleter{p}, nil
}

type deleter struct{ plugin *Plugin }

// Delete deletes the directory of a volume, see [Plugin.NewDeleter].
func (d deleter) Delete(ctx context.Context, pv *v1.PersistentVolume) error {
	p := d.plugin
	location, err := p.deletable(ctx, pv)
	if err != nil {
		return fmt.Errorf("not deleting the directory of PersistentVolume %s: %w", pv.Name, err)
	}
	_, err = await(ctx, &p.stuck, "delete directory", location.path(), func() (struct{}, error) {
		return struct{}{}, location.remove(ctx, pv.Name, func() error { return p.unlimit(ctx, pv, location) })
	})
	var mounted *removal.MountedError
	if errors.As(err, &mounted) {
		err = volume.Errorf(volume.ErrInUse, "%w", err)
	}
	if err != nil {
		return fmt.Errorf("delete the directory of PersistentVolume %s: %w", pv.Name, err)
	}
	return nil
}

// deletable returns what may be deleted for a volume, as far as the volume itself tells.
func (p *Plugin) deletable(ctx context.Context, pv *v1.PersistentVolume) (location, error) {
	if pv.Spec.HostPath == nil {
		return location{}, volume.Errorf(volume.ErrInvalid, "it has no hostPath")
	}
	if err := provisioning.CheckProvisionedBy(pv, p.provisioner); err != nil {
		return location{}, err
	}
	if err := volume.CheckName(pv.Name); err != nil {
		return location{}, err
	}
	if err := provisioning.CheckNode(ctx, p.host, pv); err != nil {
		return location{}, err
	}
	return p.locate(pv.Spec.HostPath.Path)
}
