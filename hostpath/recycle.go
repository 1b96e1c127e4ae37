// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/volumedir"
	"github.com/volumekit/volumekit/volume"
)

var _ volume.RecyclableVolumePlugin = (*Plugin)(nil)

// NewRecycler returns a Recycler of directories: it removes all that is in one, and keeps it.
func (p *Plugin) NewRecycler() (volume.Recycler, error) { return recycler{p}, nil }

type recycler struct{ plugin *Plugin }

// Recycle removes all that is in the directory of a volume whose reclaim policy is Recycle, and which AllowedPaths allow. It follows
// no symbolic link there, and what is mounted in it stays: the error matches [volume.ErrInUse] and names it, and the same call goes
// on once that is gone.
func (r recycler) Recycle(ctx context.Context, pv *v1.PersistentVolume) error {
	source := pv.Spec.HostPath
	if source == nil {
		return volume.Errorf(volume.ErrInvalid, "PersistentVolume %s has no hostPath", pv.Name)
	}
	if err := checkSource(source); err != nil {
		return err
	}
	path := source.Path
	if r.plugin.allowed != nil {
		where, err := resolve(path)
		if err != nil {
			return err
		}
		readOnly, err := r.plugin.allowed.admit(where.path)
		if err != nil {
			return err
		}
		if readOnly {
			return volume.Errorf(volume.ErrInvalid, "PersistentVolume %s is %s, which may only be read: nothing is removed", pv.Name, where.path)
		}
		path = where.path
	}
	return volumedir.Recycle(ctx, r.plugin.host.Root, pv, path)
}
