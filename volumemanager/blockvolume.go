// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/blockmap"
	"github.com/volumekit/volumekit/volume"
)

// blockVolume is the volume.Mounter of a raw device: what it makes available at its path is the device.
type blockVolume struct {
	host     volume.Host
	mapper   volume.BlockVolumeMapper
	podUID   types.UID
	readOnly bool
}

func newBlockVolume(host volume.Host, plugin volume.VolumePlugin, spec *volume.Spec, pod *v1.Pod) (*blockVolume, error) {
	blocks, ok := plugin.(volume.BlockVolumePlugin)
	if !ok {
		return nil, volume.Errorf(volume.ErrNotSupported, "PersistentVolume %q has the volumeMode Block, which plugin %s does not serve",
			spec.PersistentVolume.Name, plugin.Name())
	}
	mapper, err := blocks.NewBlockVolumeMapper(spec, pod)
	if err != nil {
		return nil, err
	}
	return &blockVolume{host: host, mapper: mapper, podUID: pod.UID, readOnly: spec.ReadOnly || isOnlyRead(spec.PersistentVolume)}, nil
}

// isOnlyRead reports whether the only access mode of a volume is ReadOnlyMany: a raw device has no mount options that could say so.
func isOnlyRead(pv *v1.PersistentVolume) bool {
	return slices.Equal(pv.Spec.AccessModes, []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany})
}

// mapping returns where the device of a volume is mapped.
func mapping(paths volume.BlockVolumePaths, podUID types.UID) (blockmap.Mapping, error) {
	global, err := paths.GlobalMapPath()
	dir, name := paths.PodDeviceMapPath()
	return blockmap.Mapping{GlobalMapPath: global, PodDir: dir, Name: name, PodUID: podUID}, err
}

// Path is where the pod's link to the device is.
func (v *blockVolume) Path() string { return filepath.Join(v.mapper.PodDeviceMapPath()) }

func (v *blockVolume) Attributes() volume.Attributes { return volume.Attributes{ReadOnly: v.readOnly} }

func (v *blockVolume) SetUp(ctx context.Context, _ volume.SetUpOptions) error {
	device, err := v.mapper.MapPodDevice(ctx)
	if err != nil {
		return err
	}
	where, err := mapping(v.mapper, v.podUID)
	if err != nil {
		return err
	}
	where.Device = device
	if _, err := blockmap.Map(ctx, v.host.Mounter, where); err != nil {
		return fmt.Errorf("map %s for the pod: %w", device, err)
	}
	return nil
}

func (v *blockVolume) Presence(ctx context.Context) (volume.Presence, error) {
	where, err := mapping(v.mapper, v.podUID)
	if err != nil {
		return volume.Unknown, err
	}
	return blockmap.Mapped(ctx, where)
}

// unmap takes a raw device away from a pod.
func unmap(ctx context.Context, host volume.Host, plugin volume.BlockVolumePlugin, name string, podUID types.UID) error {
	unmapper, err := plugin.NewBlockVolumeUnmapper(name, podUID)
	if err != nil {
		return err
	}
	where, err := mapping(unmapper, podUID)
	if err != nil {
		return err
	}
	if err := refuseLinks(where.PodDir, where.GlobalMapPath); err != nil {
		return err
	}
	if err := blockmap.Unmap(ctx, host.Mounter, where); err != nil {
		return err
	}
	if err := unmapper.UnmapPodDevice(ctx); err != nil {
		return err
	}
	removeEmpty(where.PodDir)
	return nil
}
