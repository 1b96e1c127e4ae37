// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"context"

	"github.com/volumekit/volumekit/internal/removal"
	"github.com/volumekit/volumekit/internal/unmounting"
	"github.com/volumekit/volumekit/internal/volumedir"
	"github.com/volumekit/volumekit/volume"
)

// unmounter takes one volume away. Whether it was a directory or a mount is what it finds out.
type unmounter struct {
	plugin *Plugin
	path   string
}

func (u *unmounter) Path() string { return u.path }

// TearDown leaves the directory that the pod's emptyDir volumes have in common to whoever removes the pod's directory.
func (u *unmounter) TearDown(ctx context.Context, options volume.TearDownOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := u.plugin.liftLimit(ctx, u.path); err != nil {
		return err
	}
	if err := u.plugin.remove(ctx, u.path, options); err != nil {
		return err // the image of what is still mounted is in the hidden directory
	}
	return u.plugin.removeHidden(ctx, hiddenPath(u.path), options)
}

// removeHidden removes what a crash has left at the path where volumes are made. Most often that is nothing.
func (p *Plugin) removeHidden(ctx context.Context, hidden string, options volume.TearDownOptions) error {
	err := removal.All(ctx, hidden)
	if volumedir.IsMountedOn(err, hidden) {
		return p.remove(ctx, hidden, options)
	}
	return volumedir.InUse(err)
}

// maxStacked bounds how many mounts at one path are unmounted: it takes several processes to stack even two.
const maxStacked = 32

// remove unmounts what the plugin mounted at path, as often as that is needed, and removes everything there.
func (p *Plugin) remove(ctx context.Context, path string, options volume.TearDownOptions) error {
	for range maxStacked {
		if err := p.unmount(ctx, path, options); err != nil {
			return err
		}
		if err := removal.All(ctx, path); !volumedir.IsMountedOn(err, path) {
			return volumedir.InUse(err)
		}
	}
	return volume.Errorf(volume.ErrInUse, "%s is still a mount point after %d unmounts", path, maxStacked)
}

// unmount unmounts what is mounted at path, the uppermost of it, if it is what the plugin mounts. On a directory that is
// there to be mounted on, a tmpfs or hugetlbfs is taken for the volume's.
func (p *Plugin) unmount(ctx context.Context, path string, options volume.TearDownOptions) error {
	there, err := p.stateOf(path)
	if err != nil || there == absent || there == unmounted {
		return err
	}
	shown, err := p.identify(ctx, path, there, foreign)
	if err != nil {
		return err
	}
	if shown.kind == foreign || there != listed && shown.kind != selfBind && shown.kind != image && !hidesMountPoint(path) && !isSelfBind(path) {
		return volume.Errorf(volume.ErrInUse, "%s is mounted on %s, and not by the plugin: unmount it", shown.what, path)
	}
	step, err := p.unmounter.Unmount(ctx, path)
	if err != nil {
		return volumedir.WhyInUse(p.host.Mounter, path, err)
	}
	if step != unmounting.Plain {
		options.Warnf("%s was unmounted %s, since what is below it does not answer", path, step)
	}
	return nil
}
