// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"context"
	"math"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/volumedir"
	"github.com/volumekit/volumekit/volume"
)

// Metrics asks the file system of a Memory volume, and the kernel about one with [Options].HardLimits, and adds up the files of
// another one. The error matches
// [volume.ErrNotFound] if the volume is not set up.
func (m *mounter) Metrics(ctx context.Context) (volume.Metrics, error) {
	switch presence, err := m.Presence(ctx); {
	case err != nil:
		return volume.Metrics{}, err
	case presence != volume.Present:
		return volume.Metrics{}, volume.Errorf(volume.ErrNotFound, "there is no volume at %s", m.path)
	}
	if metrics, limited, err := m.limitedMetrics(ctx); limited || err != nil {
		return metrics, err
	}
	metrics, err := volumedir.Metrics(ctx, m.path, m.plugin.host.Clock.Now(), m.wanted.medium == v1.StorageMediumMemory)
	if err != nil {
		return volume.Metrics{}, err
	}
	metrics.Limit = m.wanted.size
	if m.wanted.medium != v1.StorageMediumDefault && m.wanted.size > 0 {
		metrics.Limit, metrics.LimitEnforced = metrics.Capacity, true
	}
	if metrics.Inodes == math.MaxInt64 { // a hugetlbfs that does not count them
		metrics.Inodes, metrics.InodesFree = 0, 0
	}
	return metrics, nil
}
