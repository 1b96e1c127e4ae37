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
	d, err := deviceOf(plugin, spec)
	if err != nil {
		return none, err
	}
	var r *deviceRecord
	if d != nil {
		release, err := m.deviceTurns.Acquire(ctx, d.id.key())
		if err != nil {
			return none, err
		}
		defer release()
		if r, err = readDevice(m.host, d.id); err != nil {
			return none, err
		}
	}
	return nodeExpand(ctx, plugin, spec, r)
}

// nodeExpand has the plugin grow a device to the capacity of the PersistentVolume. r is nil if nothing is recorded of it.
func nodeExpand(ctx context.Context, plugin volume.VolumePlugin, spec *volume.Spec, r *deviceRecord) (resource.Quantity, error) {
	expandable, ok := plugin.(volume.NodeExpandableVolumePlugin)
	if !ok {
		return resource.Quantity{}, volume.Errorf(volume.ErrNotSupported, "plugin %s grows no volumes on nodes", plugin.Name())
	}
	expander, err := expandable.NewNodeExpander()
	if err != nil {
		return resource.Quantity{}, err
	}
	options := volume.NodeExpandOptions{Spec: spec, Size: spec.PersistentVolume.Spec.Capacity[v1.ResourceStorage]}
	if r != nil {
		options.DevicePath, options.DeviceMountPath = r.Path, r.MountPath
	}
	return expander.NodeExpand(ctx, options)
}

// canGrow reports whether the volume is one that may have to be grown on the node.
func (v *podVolume) canGrow() bool {
	_, ok := v.plugin.(volume.NodeExpandableVolumePlugin)
	return ok && v.claim != nil && v.isResolved() && v.device != nil
}

// expandIfGrown has the node grow the volume if its PersistentVolume has grown since it was set up. A claim that cannot be used any
// more leaves the volume as it is.
func (m *Manager) expandIfGrown(ctx context.Context, v *podVolume, r *result) error {
	pv, _, _, err := persistentVolumeOf(ctx, m.host, v.pod, v.claim)
	if err != nil {
		if isWaiting(err) {
			return nil
		}
		return err
	}
	has, had := pv.Spec.Capacity[v1.ResourceStorage], v.given.PersistentVolume.Spec.Capacity[v1.ResourceStorage]
	if pv.Name != v.given.Name() || has.Cmp(had) <= 0 {
		return nil
	}
	if _, err := m.expand(ctx, volume.NewSpecFromPersistentVolume(pv, v.given.ReadOnly)); err != nil {
		return err
	}
	r.persistentVolume = pv
	return nil
}

// grown takes over that the volume has another capacity. mu is locked.
func (p *managedPod) grown(v *managedVolume, o *operation, r *result) {
	if r.persistentVolume == nil || o.of != v.wanted || v.record == nil || v.record.PersistentVolume == nil {
		return
	}
	capacity := r.persistentVolume.Spec.Capacity
	wanted, recorded := *v.wanted, *v.record
	wanted.given = withCapacity(wanted.given, capacity)
	if wanted.spec == v.wanted.given {
		wanted.spec = wanted.given
	}
	recorded.PersistentVolume = withCapacity(v.record.spec(), capacity).PersistentVolume
	v.wanted, v.record, v.follows.of = &wanted, &recorded, &wanted
	p.unwritten = true
}

func withCapacity(spec *volume.Spec, capacity v1.ResourceList) *volume.Spec {
	pv := spec.PersistentVolume.DeepCopy()
	pv.Spec.Capacity = capacity
	return volume.NewSpecFromPersistentVolume(pv, spec.ReadOnly)
}
