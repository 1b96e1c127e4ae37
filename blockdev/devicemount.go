// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/internal/abandon"
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
		fsType, err := p.toBeMounted(source, found, device).Prepare(ctx, p.host)
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

// UnmountDevice unmounts the device. The loop device of a file goes with its last mount.
func (d deviceMounter) UnmountDevice(ctx context.Context, deviceMountPath string) error {
	p := d.plugin
	dir := p.host.PluginMountsDir(Name)
	if filepath.Dir(deviceMountPath) != dir || volume.CheckName(filepath.Base(deviceMountPath)) != nil {
		return volume.Errorf(volume.ErrInvalid, "%s is no place where the plugin mounts devices: those are in %s", deviceMountPath, dir)
	}
	if err := volumedir.TakeAway(ctx, p.host.Mounter, p.unmounter, deviceMountPath, func(string, ...any) {}); err != nil {
		return err
	}
	if err := p.formattingRecord(filepath.Base(deviceMountPath)).Settle(ctx); err != nil {
		return err
	}
	volumedir.RemoveEmpty(p.host.Root, dir)
	return nil
}
