// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"context"

	"github.com/volumekit/volumekit/internal/usage"
	"github.com/volumekit/volumekit/volume"
)

// Metrics asks the volume's tmpfs, or adds up the files of one that is on disk. The error matches [volume.ErrNotFound] if the volume
// is not set up.
func (m *mounter) Metrics(ctx context.Context) (volume.Metrics, error) {
	switch presence, err := m.Presence(ctx); {
	case err != nil:
		return volume.Metrics{}, err
	case presence != volume.Present:
		return volume.Metrics{}, volume.Errorf(volume.ErrNotFound, "there is no volume at %s", m.path)
	}
	all, err := usage.Statfs(ctx, m.path)
	if err != nil {
		return volume.Metrics{}, err
	}
	metrics := volume.Metrics{
		Time:       m.plugin.host.Clock.Now(),
		Used:       all.Used,
		Capacity:   all.Capacity,
		Available:  all.Available,
		InodesUsed: all.InodesUsed,
		Inodes:     all.Inodes,
		InodesFree: all.InodesFree,
	}
	if m.plugin.options.OnDisk {
		used, err := usage.Walk(ctx, m.path)
		if err != nil {
			return volume.Metrics{}, err
		}
		metrics.Used, metrics.InodesUsed = used.Bytes, used.Inodes
	}
	return metrics, nil
}
