// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/volumekit/volumekit/internal/volumedir"
	"github.com/volumekit/volumekit/volume"
)

// mountPointMode is that of the directory that the tmpfs hides.
const mountPointMode = 0

// rootMode is that of the volume, as the kubelet has it. Containers see it read-only.
const rootMode = 0o777 | fs.ModeSticky

// makeDirectory makes the directory, or the tmpfs, that the files are put into. It changes nothing if it is there.
func (p *Plugin) makeDirectory(ctx context.Context, path string, group *int64) error {
	if p.options.OnDisk {
		return volumedir.Exhausted(p.makeOnDisk(ctx, path, group))
	}
	err := volumedir.WithParents(path, func() error { return os.Mkdir(path, mountPointMode) })
	if errors.Is(err, fs.ErrExist) {
		there, err := p.look(ctx, path)
		if err != nil || there {
			return err
		}
	} else if err != nil {
		return volumedir.Exhausted(err)
	}
	options := []string{"nosuid", "nodev", fmt.Sprintf("mode=%#o", unixMode(group))}
	if group != nil {
		options = append(options, fmt.Sprintf("gid=%d", *group))
	}
	err = p.tmpfs.Mount(p.host.Mounter, path, options)
	if errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("%w: without the right to mount, the option OnDisk of package projected keeps the files in a directory", err)
	}
	return volumedir.Exhausted(err)
}

func (p *Plugin) makeOnDisk(ctx context.Context, path string, group *int64) error {
	err := volumedir.WithParents(path, func() error { return os.Mkdir(path, 0o700) })
	if errors.Is(err, fs.ErrExist) {
		if _, err := p.look(ctx, path); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	mode := rootMode
	if group != nil {
		mode |= fs.ModeSetgid
	}
	// The mode is set last: then the group is right too.
	if info, err := os.Lstat(path); err != nil || info.Mode() == fs.ModeDir|mode {
		return err
	}
	if group != nil {
		if err := os.Chown(path, -1, int(*group)); err != nil {
			return fmt.Errorf("give the volume to the fsGroup: %w", err)
		}
	}
	return os.Chmod(path, mode)
}

// unixMode is the mode of the volume as a mount option has it.
func unixMode(group *int64) uint32 {
	if group != nil {
		return 0o3777
	}
	return 0o1777
}

// look reports whether the directory that the files are put into is there, as it should be. The error matches [volume.ErrInUse] if
// something else is in its place.
func (p *Plugin) look(ctx context.Context, path string) (bool, error) {
	mounted, err := p.host.Mounter.IsMountPoint(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if mounted {
		if err := p.checkMount(ctx, path); err != nil {
			return false, err
		}
		return true, nil
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil && !info.IsDir() {
		err = volume.Errorf(volume.ErrInUse, "%s is no directory (%s): remove it", path, info.Mode())
	}
	return err == nil && p.options.OnDisk, err
}

// errInMemory is about a volume that a plugin without OnDisk has set up.
var errInMemory = errors.New("it was set up in memory: tear it down first, or leave OnDisk unset")

// checkMount returns an error unless what is mounted at path is what the plugin mounts. It wraps errInMemory if a plugin with other
// options has mounted it.
func (p *Plugin) checkMount(ctx context.Context, path string) error {
	what, isTmpfs, err := volumedir.IsTmpfs(ctx, p.host.Mounter, path)
	switch {
	case err != nil:
		return fmt.Errorf("what is mounted on %s does not tell what it is: %w", path, err)
	case p.options.OnDisk && isTmpfs && volumedir.HidesMode(path, mountPointMode):
		return volume.Errorf(volume.ErrInUse, "%s: %w", path, errInMemory)
	case !isTmpfs || p.options.OnDisk:
		return volume.Errorf(volume.ErrInUse, "%s is mounted on %s, and not by the plugin: unmount it", what, path)
	}
	return nil
}
