// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/internal/mountid"
	"github.com/volumekit/volumekit/volume"
)

// errGone says that a volume which was set up is not there any more.
var errGone = errors.New("it was set up, but is not there any more: somebody has taken it away")

// verify proves that a volume that was set up is there, and is what was set up.
func verify(ctx context.Context, v *podVolume, recorded *volumeRecord) error {
	if recorded.Mount != nil {
		now, err := mountid.Of(ctx, v.mounter.Path())
		if err != nil {
			return volume.Errorf(volume.ErrUncertain, "it cannot be told what is mounted at %s: %w", v.mounter.Path(), err)
		}
		if err := recorded.Mount.Check(now); err != nil {
			return fmt.Errorf("%w: %w", errGone, err)
		}
	}
	presence, err := v.mounter.Presence(ctx)
	switch presence {
	case volume.Present:
		return nil
	case volume.Absent:
		return errGone
	}
	return volume.Errorf(volume.ErrUncertain, "it cannot be told whether it is still there: %w", err)
}

// mountAt tells what is mounted at the path of a volume that has been set up; nil if nothing is, or the path is not one of
// ours: it may be on a server that does not answer.
func (m *Manager) mountAt(ctx context.Context, path string) (*mountid.Identity, error) {
	if !strings.HasPrefix(path, m.host.PodsDir()) {
		return nil, nil
	}
	identity, err := mountid.Of(ctx, path)
	if err != nil {
		return nil, volume.Errorf(volume.ErrUncertain, "it cannot be told what is mounted at %s: %w", path, err)
	}
	if !identity.Root {
		return nil, nil
	}
	return &identity, nil
}

// checkNothingOnTop refuses a volume on whose mount somebody has mounted something else, which must not be taken for it.
func (m *Manager) checkNothingOnTop(ctx context.Context, recorded *volumeRecord, path string) error {
	if recorded.Mount == nil {
		return nil
	}
	now, err := mountid.Of(ctx, path)
	if err != nil || !now.Root || recorded.Mount.Check(now) == nil || !recorded.Mount.Exists() {
		return nil // what the plugin makes of it
	}
	return volume.Errorf(volume.ErrInUse, "%s is mounted on top of it at %s: unmount that", now.Source, path)
}
