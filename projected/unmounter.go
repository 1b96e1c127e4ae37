// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"context"
	"errors"
	"io/fs"

	"github.com/volumekit/volumekit/internal/removal"
	"github.com/volumekit/volumekit/internal/unmounting"
	"github.com/volumekit/volumekit/internal/volumedir"
	"github.com/volumekit/volumekit/volume"
)

// unmounter takes one volume away.
type unmounter struct {
	plugin *Plugin
	path   string
	volume volumeKey
}

func (u *unmounter) Path() string { return u.path }

// maxStacked bounds how many mounts at one path are unmounted: it takes several processes to stack even two.
const maxStacked = 32

func (u *unmounter) TearDown(ctx context.Context, options volume.TearDownOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	u.plugin.memory.forget(u.volume)
	for range maxStacked {
		mounted, err := u.plugin.host.Mounter.IsMountPoint(u.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !mounted:
			return volumedir.InUse(removal.All(ctx, u.path))
		}
		if err := u.unmount(ctx, options); err != nil {
			return err
		}
	}
	return volume.Errorf(volume.ErrInUse, "%s is still a mount point after %d unmounts", u.path, maxStacked)
}

func (u *unmounter) unmount(ctx context.Context, options volume.TearDownOptions) error {
	if err := u.plugin.checkMount(ctx, u.path); err != nil && !errors.Is(err, errInMemory) {
		return err
	}
	step, err := u.plugin.unmounter.Unmount(ctx, u.path)
	if err != nil {
		return volumedir.WhyInUse(u.plugin.host.Mounter, u.path, err)
	}
	if step != unmounting.Plain {
		options.Warnf("%s was unmounted %s, since what is below it does not answer", u.path, step)
	}
	return nil
}
