// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volumekit/volumekit/volume"
)

// ExpandVolume has the node grow a PersistentVolume that has grown where it is stored (see [volume.ExpandResult]) to its capacity:
// the device, and the file system on it, while pods use it or not. It returns the size that it has now. The error matches
// [volume.ErrNotSupported] if the plugin grows nothing on nodes.
//
// It may be called at any time, whether the volume is used here or not, and waits for what is being done to the volume's device for
// pods. It is idempotent.
func (m *Manager) ExpandVolume(ctx context.Context, pv *v1.PersistentVolume) (resource.Quantity, error) {
	if err := m.checkOpen(); err != nil {
		return resource.Quantity{}, err
	}
	if pv == nil {
		return resource.Quantity{}, volume.Errorf(volume.ErrInvalid, "the PersistentVolume is nil")
	}
	size, err := m.expand(ctx, volume.NewSpecFromPersistentVolume(pv, false))
	if err != nil {
		return resource.Quantity{}, fmt.Errorf("expand PersistentVolume %q on this node: %w", pv.Name, err)
	}
	return size, nil
}

func (m *Manager) expand(ctx context.Context, spec *volume.Spec) (resource.Quantity, error) {
	none := resource.Quantity{}
	plugin, err := m.plugins.FindPluginBySpec(spec)
	if err != nil {
		return none, err
	}
	expandable, ok := plugin.(volume.NodeExpandableVolumePlugin)
	if !ok {
		return none, volume.Errorf(volume.ErrNotSupported, "plugin %s grows no volumes on nodes", plugin.Name())
	}
	expander, err := expandable.NewNodeExpander()
	if err != nil {
		return none, err
	}
	d, err := deviceOf(plugin, spec)
	if err != nil {
		return none, err
	}
	options := volume.NodeExpandOptions{Spec: spec, Size: spec.PersistentVolume.Spec.Capacity[v1.ResourceStorage]}
	if d != nil {
		release, err := m.deviceTurns.Acquire(ctx, d.id.key())
		if err != nil {
			return none, err
		}
		defer release()
		r, err := readDevice(m.host, d.id)
		if err != nil {
			return none, err
		}
		if r != nil {
			options.DevicePath, options.DeviceMountPath = r.Path, r.MountPath
		}
	}
	return expander.NodeExpand(ctx, options)
}
