// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/internal/abandon"
	"github.com/volumekit/volumekit/internal/filesystem"
	"github.com/volumekit/volumekit/internal/volumedir"
	"github.com/volumekit/volumekit/volume"
)

func (p *Plugin) deviceMountPath(spec *volume.Spec) string {
	return filepath.Join(p.host.PluginMountsDir(Name), spec.Name())
}

// CanDeviceMount returns true: what the path leads to is not known before it is looked at. For a directory nothing is mounted.
func (p *Plugin) CanDeviceMount(spec *volume.Spec) (bool, error) { return !isBlock(spec), nil }

// NewDeviceMounter returns the DeviceMounter.
func (p *Plugin) NewDeviceMounter() (volume.DeviceMounter, error) { return deviceMounter{p}, nil }

// NewDeviceUnmounter returns the DeviceUnmounter.
func (p *Plugin) NewDeviceUnmounter() (volume.DeviceUnmounter, error) { return deviceMounter{p}, nil }

// DeviceMountRefs lists the other places below the root where the file system is mounted: those of pods. Where it is mounted beyond,
// such as below another root, it does not depend on what is mounted here, and keeps the device.
func (p *Plugin) DeviceMountRefs(ctx context.Context, deviceMountPath string) ([]string, error) {
	mounted, err := p.isMountPoint(ctx, deviceMountPath)
	if err != nil || !mounted {
		return nil, err
	}
	return abandon.Run(ctx, func() ([]string, error) {
		refs, err := p.host.Mounter.GetMountRefs(deviceMountPath)
		below := resolved(p.host.Root) + string(filepath.Separator)
		return slices.DeleteFunc(refs, func(ref string) bool { return !strings.HasPrefix(ref, below) }), err
	})
}

// deviceMounter mounts devices for all pods of the node.
type deviceMounter struct{ plugin *Plugin }

// DeviceMountPath returns "plugins/kubernetes.io/local-volume/mounts/NAME".
func (d deviceMounter) DeviceMountPath(spec *volume.Spec) (string, error) {
	if _, err := checkSpec(spec); err != nil {
		return "", err
	}
	return d.plugin.deviceMountPath(spec), volume.CheckName(spec.Name())
}

// MountDevice mounts the device. A directory needs nothing.
func (d deviceMounter) MountDevice(ctx context.Context, spec *volume.Spec, _, deviceMountPath string, options volume.DeviceMountOptions) error {
	p := d.plugin
	source, err := checkSpec(spec)
	if err != nil {
		return err
	}
	found, err := source.find(ctx)
	if err != nil {
		return err
	}
	if found.kind == directory {
		return source.checkBindable()
	}
	mounted, err := p.isMountPoint(ctx, deviceMountPath)
	if err != nil {
		return err
	}
	if mounted {
		is, err := p.showsPlace(ctx, deviceMountPath, found)
		if err == nil && !is {
			err = volume.Errorf(volume.ErrInUse, "something else than %s is mounted at %s: unmount it", found.path, deviceMountPath)
		}
		return err
	}
	return p.withDevice(ctx, found, source.readOnly, func(device string) error {
		fsType, err := p.prepare(ctx, source, found, device)
		if err != nil {
			return err
		}
		err = volumedir.WithParents(deviceMountPath, func() error { return os.Mkdir(deviceMountPath, 0o750) })
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return volumedir.Exhausted(err)
		}
		mountOptions := slices.Clone(source.mountOptions)
		if source.readOnly && !slices.Contains(mountOptions, "ro") {
			mountOptions = append(mountOptions, "ro")
		}
		return p.mount(ctx, device, deviceMountPath, fsType, mountOptions)
	})
}

// prepare makes sure that there is a file system that can be mounted, and returns its type.
func (p *Plugin) prepare(ctx context.Context, s source, found place, device string) (string, error) {
	content, err := filesystem.Probe(ctx, device)
	if err != nil {
		return "", volume.Errorf(volume.ErrUncertain, "it is not known what is on %s, so nothing is done to it: %w", found.path, err)
	}
	if content.IsFileSystem {
		if s.fsType != "" && s.fsType != content.Type && !(isExt(s.fsType) && isExt(content.Type)) {
			return "", volume.Errorf(volume.ErrInvalid, "%s has the file system %s, and local.fsType asks for %s: correct that, or give the PersistentVolume another device",
				found.path, content.Type, s.fsType)
		}
		if err := p.forgetFormatting(s.name); err != nil {
			return "", err
		}
		if s.readOnly {
			return content.Type, nil // to check it is to write
		}
		return content.Type, p.check(ctx, found, device, content.Type)
	}
	fsType := s.fsType
	if fsType == "" {
		fsType = "ext4"
	}
	if s.readOnly {
		return "", volume.Errorf(volume.ErrInvalid, "%s has no file system (%s), and is to be mounted read-only, so none is made", found.path, contentText(content))
	}
	err = p.format(ctx, s, found, device, fsType, content)
	if errors.Is(err, filesystem.ErrNotBlank) { // somebody else, such as the node agent of another root, was faster
		if content, probeErr := filesystem.Probe(ctx, device); probeErr == nil && content.IsFileSystem {
			return p.prepare(ctx, s, found, device)
		}
	}
	return fsType, err
}

func isExt(fsType string) bool { return slices.Contains([]string{"ext2", "ext3", "ext4"}, fsType) }

func contentText(c filesystem.Content) string {
	if c.Blank {
		return "it is blank"
	}
	return "there is: " + c.Type
}

// check has the file system checked, unless the device is in use.
func (p *Plugin) check(ctx context.Context, found place, device, fsType string) error {
	busy, err := p.staysBusy(ctx, device)
	if err != nil || busy {
		return err
	}
	_, err = filesystem.Check(ctx, p.host.Exec, device, fsType)
	switch {
	case errors.Is(err, filesystem.ErrInUse):
		return nil // since a moment ago; that it is in use is for mounting to say
	case errors.Is(err, filesystem.ErrNeedsRepair):
		// A loop device goes: what can be repaired is the file.
		return volume.Errorf(volume.ErrInvalid, "the file system on %s is damaged, and is not mounted: %s", found.path, strings.ReplaceAll(err.Error(), device, found.path))
	case err != nil:
		return fmt.Errorf("check the file system on %s: %w", found.path, err)
	}
	return nil
}

// UnmountDevice unmounts the device. The loop device of a file goes with its last mount.
func (d deviceMounter) UnmountDevice(ctx context.Context, deviceMountPath string) error {
	p := d.plugin
	dir := p.host.PluginMountsDir(Name)
	if filepath.Dir(deviceMountPath) != dir || volume.CheckName(filepath.Base(deviceMountPath)) != nil {
		return volume.Errorf(volume.ErrInvalid, "%s is no place where the plugin mounts devices: those are in %s", deviceMountPath, dir)
	}
	if err := p.unmount(ctx, deviceMountPath, func(string, ...any) {}); err != nil {
		return err
	}
	if err := p.settleFormatting(ctx, filepath.Base(deviceMountPath)); err != nil {
		return err
	}
	p.removeEmpty(dir)
	return nil
}

// removeEmpty removes the directory, and those above it up to the root, as far as they are empty.
func (p *Plugin) removeEmpty(dir string) {
	for ; dir != p.host.Root && syscall.Rmdir(dir) == nil; dir = filepath.Dir(dir) {
	}
}
