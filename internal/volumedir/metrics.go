// SPDX-License-Identifier: Apache-2.0

package volumedir

import (
	"context"
	"time"

	"github.com/volumekit/volumekit/internal/usage"
	"github.com/volumekit/volumekit/volume"
)

// Metrics tells how full the file system is that a volume is on. Unless the volume has it to itself, its files are counted one by one.
func Metrics(ctx context.Context, path string, now time.Time, hasItself bool) (volume.Metrics, error) {
	all, err := usage.Statfs(ctx, path)
	if err != nil {
		return volume.Metrics{}, err
	}
	metrics := volume.Metrics{
		Time:       now,
		Used:       all.Used,
		Capacity:   all.Capacity,
		Available:  all.Available,
		InodesUsed: all.InodesUsed,
		Inodes:     all.Inodes,
		InodesFree: all.InodesFree,
	}
	if !hasItself {
		used, err := usage.Walk(ctx, path)
		if err != nil {
			return volume.Metrics{}, err
		}
		metrics.Used, metrics.InodesUsed = used.Bytes, used.Inodes
	}
	return metrics, nil
}
