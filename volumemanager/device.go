// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/blockmap"
	"github.com/volumekit/volumekit/internal/record"
	"github.com/volumekit/volumekit/volume"
)

// device is what a volume needs done once per node before a pod gets it.
type device struct {
	id deviceID

	// attached says that it is attached to the node, and mounted that it is mounted there for all pods.
	attached, mounted bool

	// block says that pods use it as a raw device.
	block bool
}

// deviceOf returns what the spec needs done once per node, nil if it needs nothing.
func deviceOf(plugin volume.VolumePlugin, spec *volume.Spec) (*device, error) {
	d := device{block: isBlock(spec)}
	var err error
	if attachable, ok := plugin.(volume.AttachableVolumePlugin); ok {
		if d.attached, err = attachable.CanAttach(spec); err != nil {
			return nil, err
		}
	}
	if mountable, ok := plugin.(volume.DeviceMountableVolumePlugin); ok && !d.block {
		if d.mounted, err = mountable.CanDeviceMount(spec); err != nil {
			return nil, err
		}
	}
	if !d.attached && !d.mounted && !d.block {
		return nil, nil
	}
	d.id.Plugin = plugin.Name()
	d.id.Device, err = plugin.VolumeName(spec)
	return &d, err
}

// isBlock reports whether pods use the volume as a raw device.
func isBlock(spec *volume.Spec) bool {
	return spec.PersistentVolume != nil && modeOf(spec.PersistentVolume.Spec.VolumeMode) == v1.PersistentVolumeBlock
}

// prepareDevice attaches the device of a volume to the node, and mounts or prepares it for all pods, as far as that has not been
// done. It returns the device's path, as far as the attacher tells it.
func (m *Manager) prepareDevice(ctx context.Context, v *podVolume) error {
	d := v.device
	if d == nil {
		return nil
	}
	release, err := m.deviceTurns.Acquire(ctx, d.id.key())
	if err != nil {
		return fmt.Errorf("%s is being worked on for another pod: %w", d.id, err)
	}
	defer release()
	r, err := m.recordUse(v)
	if err != nil {
		return err
	}
	if d.attached {
		if err := m.attach(ctx, v, r); err != nil {
			return err
		}
	}
	switch {
	case d.block:
		_, err = v.mounter.(*blockVolume).mapper.SetUpDevice(ctx, r.Path)
	case d.mounted:
		err = mountDevice(ctx, v, r)
	}
	if err != nil {
		m.forgetAttached(d.id) // it may have failed because that is not so any more
		return err
	}
	if v.grow && v.canGrow() {
		if _, err := nodeExpand(ctx, v.plugin, v.given, r); err != nil {
			return fmt.Errorf("grow it to the capacity of its PersistentVolume: %w", err)
		}
	}
	return nil
}

// recordUse records that the pod is about to use the device, unless that is known.
func (m *Manager) recordUse(v *podVolume) (*deviceRecord, error) {
	d := v.device
	old, err := readDevice(m.host, d.id)
	switch {
	case errors.Is(err, record.ErrDamaged):
		if old, err = m.rebuildDevice(d.id); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	}
	r := &deviceRecord{deviceID: d.id, Volume: v.spec.Name()}
	if old != nil {
		if old.Block != d.block && len(old.others(m.host, v.pod.UID)) > 0 {
			return nil, volume.Errorf(volume.ErrInUse, "%s is used by pod %q in another volumeMode: that pod has to go first", d.id, old.others(m.host, v.pod.UID))
		}
		*r = *old
		r.Users = slices.Clone(old.Users)
	}
	r.Block, r.Attached = d.block, r.Attached || d.attached
	if d.mounted {
		mounter, err := v.plugin.(volume.DeviceMountableVolumePlugin).NewDeviceMounter()
		if err != nil {
			return nil, err
		}
		if r.MountPath, err = mounter.DeviceMountPath(v.spec); err != nil {
			return nil, err
		}
	}
	r.withUser(v.pod.UID)
	if old != nil && slices.Contains(old.Users, v.pod.UID) && old.Attached == r.Attached && old.MountPath == r.MountPath && old.Block == r.Block {
		return r, nil
	}
	return r, writeDevice(m.host, r)
}

func writeDevice(host volume.Host, r *deviceRecord) error {
	err := r.write(host)
	if err != nil && isFull(err) {
		return volume.Errorf(volume.ErrExhausted, "%w", err)
	}
	return err
}

// rebuildDevice returns what can be told of a device whose record is damaged: which pods are recorded to use it. What is mounted
// from it says the rest when it is to be unmounted.
func (m *Manager) rebuildDevice(id deviceID) (*deviceRecord, error) {
	uids, _, err := podUIDs(m.host)
	if err != nil {
		return nil, err
	}
	rebuilt := &deviceRecord{deviceID: id}
	for _, uid := range uids {
		found, err := readRecord(m.host, uid)
		if err != nil {
			continue
		}
		for i := range found.Volumes {
			if r := &found.Volumes[i]; r.Plugin == id.Plugin && r.Device == id.Device {
				rebuilt.Volume = r.Name
				rebuilt.withUser(uid)
			}
		}
	}
	if rebuilt.Volume == "" {
		return nil, nil
	}
	return rebuilt, nil
}

// attach attaches the device, and waits until it is there.
func (m *Manager) attach(ctx context.Context, v *podVolume, r *deviceRecord) error {
	if m.isAttached(r.deviceID) {
		return nil
	}
	attacher, err := v.plugin.(volume.AttachableVolumePlugin).NewAttacher()
	if err != nil {
		return err
	}
	path, err := attacher.Attach(ctx, v.spec, m.host.NodeName)
	if err != nil {
		return fmt.Errorf("attach %s: %w", r.deviceID, err)
	}
	if path, err = attacher.WaitForAttach(ctx, v.spec, path); err != nil {
		return fmt.Errorf("wait for %s to be attached: %w", r.deviceID, err)
	}
	if path != r.Path {
		r.Path = path
		if err := writeDevice(m.host, r); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.attached[r.deviceID] = true
	return nil
}

func (m *Manager) isAttached(id deviceID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.attached[id]
}

// forgetAttached has the device attached again before it is used the next time, which costs little if it is.
func (m *Manager) forgetAttached(id deviceID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.attached, id)
}

func mountDevice(ctx context.Context, v *podVolume, r *deviceRecord) error {
	mounter, err := v.plugin.(volume.DeviceMountableVolumePlugin).NewDeviceMounter()
	if err != nil {
		return err
	}
	options := volume.DeviceMountOptions{FSGroup: v.options().FSGroup, SELinuxLabel: v.label}
	if err := mounter.MountDevice(ctx, v.spec, r.Path, r.MountPath, options); err != nil {
		return fmt.Errorf("mount it for all pods of the node at %s: %w", r.MountPath, err)
	}
	return nil
}

// releaseDevice says that the pod, whose volume is gone, does not use the device any more. If no other pod does, it is unmounted
// and detached.
func (m *Manager) releaseDevice(ctx context.Context, uid types.UID, recorded *volumeRecord, r *result) error {
	for _, id := range m.devicesOf(uid, recorded, r) {
		if err := m.release(ctx, id, uid, recorded); err != nil {
			return err
		}
	}
	return nil
}

// devicesOf returns the device of a volume. For one of which nothing but the name is known, because its record is lost, those are
// looked for that the pod uses. A record of a device that is damaged too could be any pod's: it is told of, and keeps no pod.
func (m *Manager) devicesOf(uid types.UID, recorded *volumeRecord, r *result) []deviceID {
	switch {
	case recorded.Device != "":
		return []deviceID{{Plugin: recorded.Plugin, Device: recorded.Device}}
	case !recorded.isLost():
		return nil
	}
	devices, errs := deviceRecords(m.host)
	for _, err := range errs {
		r.warn(fmt.Sprintf("a device that the volume may have used stays as it is: %v", err))
	}
	var ids []deviceID
	for _, d := range devices {
		if d.Plugin == recorded.Plugin && d.Volume == recorded.Name && slices.Contains(d.Users, uid) {
			ids = append(ids, d.deviceID)
		}
	}
	return ids
}

func (m *Manager) release(ctx context.Context, id deviceID, uid types.UID, recorded *volumeRecord) error {
	release, err := m.deviceTurns.Acquire(ctx, id.key())
	if err != nil {
		return fmt.Errorf("%s is being worked on for another pod: %w", id, err)
	}
	defer release()
	r, err := readDevice(m.host, id)
	switch damaged := errors.Is(err, record.ErrDamaged); {
	case err != nil && !damaged:
		return err
	case r == nil: // either that or nothing was done to it, all of it has been undone, or somebody has removed the record
		if r, err = m.rebuildDevice(id); err != nil {
			return err
		}
		if r == nil {
			r = &deviceRecord{deviceID: id, Volume: recorded.Name}
		}
		if err := m.completeDevice(r, recorded); err != nil {
			return err
		}
		// Of what may never have been attached here it is not known that it can be detached.
		r.Attached = r.Attached && damaged
	}
	if others := r.others(m.host, uid); len(others) > 0 {
		if slices.Equal(others, r.Users) {
			return nil
		}
		r.Users = others
		return writeDevice(m.host, r)
	}
	return m.takeAway(ctx, r)
}

// completeDevice adds to what was rebuilt what can be told from the volume's own record.
func (m *Manager) completeDevice(r *deviceRecord, recorded *volumeRecord) error {
	plugin, err := m.plugins.FindPluginByName(r.Plugin)
	if err != nil || recorded.isLost() {
		return err
	}
	d, err := deviceOf(plugin, recorded.spec())
	if err != nil || d == nil {
		return err
	}
	r.Block, r.Attached = d.block, d.attached
	if d.mounted {
		mounter, err := plugin.(volume.DeviceMountableVolumePlugin).NewDeviceMounter()
		if err != nil {
			return err
		}
		r.MountPath, err = mounter.DeviceMountPath(recorded.spec())
		return err
	}
	return nil
}

// takeAway unmounts and detaches a device that no pod uses, and removes its record.
func (m *Manager) takeAway(ctx context.Context, r *deviceRecord) error {
	plugin, err := m.plugins.FindPluginByName(r.Plugin)
	if err != nil {
		return fmt.Errorf("%w: its device stays until it is", err)
	}
	m.forgetAttached(r.deviceID)
	if r.Block {
		err = tearDownDevice(ctx, plugin, r)
	} else if r.MountPath != "" {
		err = unmountDevice(ctx, plugin, r)
	}
	if err != nil {
		return err
	}
	if r.Attached {
		attachable, ok := plugin.(volume.AttachableVolumePlugin)
		if !ok {
			return volume.Errorf(volume.ErrNotSupported, "%s is attached, and the plugin that is registered now cannot detach it", r.deviceID)
		}
		detacher, err := attachable.NewDetacher()
		if err != nil {
			return err
		}
		if err := detacher.Detach(ctx, r.Device, m.host.NodeName); err != nil {
			return fmt.Errorf("detach %s: %w", r.deviceID, err)
		}
	}
	return r.remove(m.host)
}

func unmountDevice(ctx context.Context, plugin volume.VolumePlugin, r *deviceRecord) error {
	mountable, ok := plugin.(volume.DeviceMountableVolumePlugin)
	if !ok {
		return volume.Errorf(volume.ErrNotSupported, "%s is mounted at %s, and the plugin that is registered now cannot unmount it", r.deviceID, r.MountPath)
	}
	refs, err := mountable.DeviceMountRefs(ctx, r.MountPath)
	if err != nil {
		return volume.Errorf(volume.ErrUncertain, "it cannot be told whether what is mounted at %s is in use elsewhere, so it stays: %w", r.MountPath, err)
	}
	if len(refs) > 0 {
		return volume.Errorf(volume.ErrInUse, "what is mounted at %s is mounted at %s too, so it stays: unmount that", r.MountPath, strings.Join(refs, ", "))
	}
	unmounter, err := mountable.NewDeviceUnmounter()
	if err != nil {
		return err
	}
	if err := unmounter.UnmountDevice(ctx, r.MountPath); err != nil {
		return fmt.Errorf("unmount it from %s: %w", r.MountPath, err)
	}
	return nil
}

// tearDownDevice undoes SetUpDevice. The pod in the unmapper's name matters not.
func tearDownDevice(ctx context.Context, plugin volume.VolumePlugin, r *deviceRecord) error {
	blocks, ok := plugin.(volume.BlockVolumePlugin)
	if !ok {
		return volume.Errorf(volume.ErrNotSupported, "%s is a raw device, which the plugin that is registered now does not know", r.deviceID)
	}
	uid := types.UID("none")
	if len(r.Users) > 0 {
		uid = r.Users[0]
	}
	unmapper, err := blocks.NewBlockVolumeUnmapper(r.Volume, uid)
	if err != nil {
		return err
	}
	global, err := unmapper.GlobalMapPath()
	if err != nil {
		return err
	}
	pods, err := blockmap.Pods(global)
	if err != nil {
		return volume.Errorf(volume.ErrUncertain, "it cannot be told which pods have the device, so it stays: %w", err)
	}
	if len(pods) > 0 {
		return volume.Errorf(volume.ErrInUse, "the device is mapped for pod %q in %s, so it stays", pods, global)
	}
	return unmapper.TearDownDevice(ctx, r.Path)
}

// ReleaseDevices unmounts and detaches the devices of which it is recorded that pods use them, though nothing is there of any of
// those pods: somebody has removed their directories. [Manager.Run] does it when it begins. The error joins what went wrong with
// each device.
func (m *Manager) ReleaseDevices(ctx context.Context) error {
	if err := m.checkOpen(); err != nil {
		return err
	}
	for _, key := range unfinishedDevices(m.host) { // what a crash has left
		release, err := m.deviceTurns.Acquire(ctx, key)
		if err != nil {
			return err
		}
		err = record.RemoveUnfinished(filepath.Join(devicesDir(m.host), key+".json"))
		release()
		if err != nil {
			return err
		}
	}
	removeEmptyOfDevices(m.host)
	devices, errs := deviceRecords(m.host)
	for _, d := range devices {
		if len(d.others(m.host, "")) == 0 {
			errs = append(errs, m.release(ctx, d.deviceID, "", &volumeRecord{}))
		}
	}
	return errors.Join(errs...)
}
