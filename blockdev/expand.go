// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volumekit/volumekit/internal/filesystem"
	"github.com/volumekit/volumekit/volume"
)

var (
	_ volume.ExpandableVolumePlugin     = (*Plugin)(nil)
	_ volume.NodeExpandableVolumePlugin = (*Plugin)(nil)
)

// NewExpander returns an Expander of the images that a Provisioner of the same options has made, also while they are in use. Other
// devices are grown by whoever has them. An image never becomes smaller: a size below that which it has is refused, with an error that
// matches [volume.ErrInvalid]. When there is no space for it, it stays as it was, and the error matches [volume.ErrExhausted].
func (p *Plugin) NewExpander() (volume.Expander, error) { return expander{p}, nil }

// NewNodeExpander returns a NodeExpander of everything that the plugin serves but directories. It has the loop device of a file take
// over the file's size, and the file system that of its device: while it is mounted, or offline.
func (p *Plugin) NewNodeExpander() (volume.NodeExpander, error) { return expander{p}, nil }

type expander struct{ plugin *Plugin }

// Expand grows the image of a volume, see [Plugin.NewExpander].
func (e expander) Expand(ctx context.Context, spec *volume.Spec, size resource.Quantity) (volume.ExpandResult, error) {
	none := volume.ExpandResult{}
	if _, err := checkSpec(spec); err != nil {
		return none, err
	}
	image, err := e.plugin.imageOf(spec.PersistentVolume)
	if err != nil {
		return none, fmt.Errorf("not expanding the device of PersistentVolume %s: %w", spec.Name(), err)
	}
	bytes, err := sizeOf(size)
	if err != nil {
		return none, err
	}
	has, err := image.grow(ctx, bytes)
	if err != nil {
		return none, fmt.Errorf("expand the device %s of PersistentVolume %s: %w", image.path(), spec.Name(), err)
	}
	return volume.ExpandResult{Size: *resource.NewQuantity(has, resource.BinarySI), NodeExpansionRequired: true}, nil
}

// NodeExpand grows the device and its file system, see [Plugin.NewNodeExpander]. The error matches [volume.ErrInvalid] if the device
// is smaller than what is asked for: then it has to grow first.
func (e expander) NodeExpand(ctx context.Context, options volume.NodeExpandOptions) (resource.Quantity, error) {
	none := resource.Quantity{}
	p := e.plugin
	source, err := checkSpec(options.Spec)
	if err != nil {
		return none, err
	}
	found, err := source.find(ctx)
	if err != nil {
		return none, err
	}
	if found.kind == directory {
		return none, volume.Errorf(volume.ErrNotSupported, "%s is a directory, which has no size to grow to", found.path)
	}
	bytes, err := filesystem.Size(found.path)
	if err != nil {
		return none, err
	}
	if options.Size.CmpInt64(bytes) > 0 {
		return none, volume.Errorf(volume.ErrInvalid, "%s has %d bytes, less than the %s that are asked for: it has to grow first", found.path, bytes, options.Size.String())
	}
	if err := p.refresh(ctx, found); err != nil {
		return none, err
	}
	if !isBlock(options.Spec) {
		if err := p.growFileSystem(ctx, source, found, options); err != nil {
			return none, err
		}
	}
	return *resource.NewQuantity(bytes, resource.BinarySI), nil
}

func (p *Plugin) growFileSystem(ctx context.Context, s source, found place, options volume.NodeExpandOptions) error {
	mountPoint := options.DeviceMountPath
	if mountPoint == "" {
		mountPoint = p.deviceMountPath(options.Spec)
	}
	mounted, err := p.isMountPoint(ctx, mountPoint)
	if err != nil {
		return err
	}
	if mounted {
		is, err := p.showsPlace(ctx, mountPoint, found)
		if err != nil {
			return err
		}
		if !is {
			return volume.Errorf(volume.ErrInUse, "something else than %s is mounted at %s", found.path, mountPoint)
		}
	} else {
		mountPoint = ""
	}
	return p.withDevice(ctx, found, s.readOnly, func(device string) error {
		content, err := filesystem.Probe(ctx, device)
		if err != nil {
			return err
		}
		if !content.IsFileSystem {
			return nil // it is made in the right size when the device is mounted for the first time
		}
		return filesystem.Grow(ctx, p.host.Exec, device, mountPoint, content.Type)
	})
}
