// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"context"

	"github.com/volumekit/volumekit/internal/volumedir"
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
	return volumedir.Metrics(ctx, m.path, m.plugin.host.Clock.Now(), !m.plugin.options.OnDisk)
}
