// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"context"
	"math"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/usage"
	"github.com/volumekit/volumekit/volume"
)

// Metrics asks the file system of a Memory volume and adds up the files of another one. The error matches
// [volume.ErrNotFound] if the volume is not set up.
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
		Limit:      m.wanted.size,
		Capacity:   all.Capacity,
		Available:  all.Available,
		InodesUsed: all.InodesUsed,
		Inodes:     all.Inodes,
		InodesFree: all.InodesFree,
	}
	if m.wanted.medium != v1.StorageMediumMemory {
		used, err := usage.Walk(ctx, m.path)
		if err != nil {
			return volume.Metrics{}, err
		}
		metrics.Used, metrics.InodesUsed = used.Bytes, used.Inodes
	}
	if m.wanted.medium != v1.StorageMediumDefault && m.wanted.size > 0 {
		metrics.Limit, metrics.LimitEnforced = all.Capacity, true
	}
	if all.Inodes == math.MaxInt64 { // a hugetlbfs that does not count them
		metrics.Inodes, metrics.InodesFree = 0, 0
	}
	return metrics, nil
}
