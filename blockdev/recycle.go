// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/volumedir"
	"github.com/volumekit/volumekit/volume"
)

var _ volume.RecyclableVolumePlugin = (*Plugin)(nil)

// NewRecycler returns a Recycler of directories: it removes all that is in one, and keeps it. Devices are not recycled.
func (p *Plugin) NewRecycler() (volume.Recycler, error) { return recycler{p}, nil }

type recycler struct{ plugin *Plugin }

// Recycle removes all that is in the directory of a volume whose reclaim policy is Recycle. It follows no symbolic link there, and
// what is mounted in it stays: the error matches [volume.ErrInUse] and names it, and the same call goes on once that is gone.
func (r recycler) Recycle(ctx context.Context, pv *v1.PersistentVolume) error {
	source, err := checkSpec(volume.NewSpecFromPersistentVolume(pv, false))
	if err != nil {
		return err
	}
	found, err := source.find(ctx)
	if err != nil {
		return err
	}
	if found.kind != directory {
		return volume.Errorf(volume.ErrNotSupported, "%s is a device, which is not recycled: delete the volume and make it anew", found.path)
	}
	return volumedir.Recycle(ctx, r.plugin.host.Root, pv, found.path)
}
