// SPDX-License-Identifier: Apache-2.0

package volumedir

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/volumekit/volumekit/internal/hardlimit"
	"github.com/volumekit/volumekit/internal/program"
	"github.com/volumekit/volumekit/volume"
)

// LimitError gives an error of package hardlimit its kind, and names the field that asks for the limit. It returns nil for nil.
func LimitError(field string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, hardlimit.ErrInUse), errors.Is(err, syscall.EBUSY):
		return volume.Errorf(volume.ErrInUse, "%s: %w", field, err)
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, program.ErrNotFound):
		return volume.Errorf(volume.ErrNotSupported, "%s: %w", field, err)
	}
	return Exhausted(fmt.Errorf("%s: %w", field, err))
}

// LimitedMetrics are [Metrics] of a volume whose limit, in bytes, the kernel enforces, by an image at that path if not by a project
// quota. Nothing is counted for them. A limit of 0 stands for what the kernel says. The error matches [io/fs.ErrNotExist] if there is
// no limit.
func LimitedMetrics(ctx context.Context, path, image string, now time.Time, limit int64) (volume.Metrics, error) {
	used, err := hardlimit.UsageOf(ctx, path, image)
	if err != nil {
		return volume.Metrics{}, err
	}
	metrics, err := Metrics(ctx, path, now, true)
	if err != nil {
		return volume.Metrics{}, err
	}
	if limit == 0 {
		limit = int64(used.Limit)
	}
	metrics.Used, metrics.InodesUsed = int64(used.Bytes), int64(used.Inodes)
	metrics.Limit, metrics.LimitEnforced, metrics.LimitedBy = limit, true, string(used.Kind)
	return metrics, nil
}
