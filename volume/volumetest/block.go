// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
)

// blockChecks are about BlockVolumePlugins, for PersistentVolumes of volumeMode Block.
var blockChecks = slices.Concat([]check{
	{name: "VolumeNameIsStable", run: volumeNameIsStable},
	{name: "BlockMappersComeWithoutIO", run: blockMappersComeWithoutIO},
	{name: "MapAndUnmapCanBeRepeated", run: mapAndUnmapCanBeRepeated},
	{name: "UnmapOfWhatWasNeverMapped", run: unmapOfWhatWasNeverMapped},
	{name: "BlockMappersRefuseHostileNames", run: blockMappersRefuseHostileNames},
}, attachChecks)

// newMapper returns the mapper and the unmapper of the volume, from the instance in use.
func (c *trial) newMapper() (mapper volume.BlockVolumeMapper, unmapper volume.BlockVolumeUnmapper) {
	c.Helper()
	plugin, ok := c.plugin().(volume.BlockVolumePlugin)
	require.True(c, ok, "the case has a volumeMode of Block, so the plugin has to be a BlockVolumePlugin")
	c.fatalIf(c.call("NewBlockVolumeMapper", func() (err error) {
		if mapper, err = plugin.NewBlockVolumeMapper(c.spec, c.pod); err != nil {
			return err
		}
		unmapper, err = plugin.NewBlockVolumeUnmapper(c.spec.Name(), c.pod.UID)
		return err
	}), "NewBlockVolumeMapper and NewBlockVolumeUnmapper")
	return mapper, unmapper
}

func blockMappersComeWithoutIO(c *trial) {
	c.restart()
	before := takeSnapshot(c, c.dir)
	mapper, unmapper := c.newMapper()
	global, err := mapper.GlobalMapPath()
	c.fatalIf(err, "GlobalMapPath")
	dir, name := mapper.PodDeviceMapPath()
	for _, path := range []string{global, dir} {
		assert.True(c, filepath.IsAbs(path), "%q is not an absolute path", path)
	}
	assert.NoError(c, volume.CheckPathElement("link", name))
	unmapDir, unmapName := unmapper.PodDeviceMapPath()
	assert.Equal(c, filepath.Join(dir, name), filepath.Join(unmapDir, unmapName), "PodDeviceMapPath of the unmapper")
	assert.Empty(c, before.changes(takeSnapshot(c, c.dir)), "what has changed on the disk")
}

// mapDevice returns the device's path for the pod.
func (c *trial) mapDevice() (device string) {
	c.Helper()
	attached, err := c.tryAttach(c.ctx())
	c.fatalIf(err, "Attach")
	mapper, _ := c.newMapper()
	c.fatalIf(c.call("SetUpDevice and MapPodDevice", func() error {
		if _, err := mapper.SetUpDevice(c.ctx(), attached); err != nil {
			return err
		}
		device, err = mapper.MapPodDevice(c.ctx())
		return err
	}), "SetUpDevice and MapPodDevice")
	return device
}

// unmapDevice undoes mapDevice.
func (c *trial) unmapDevice(device string) {
	c.Helper()
	_, unmapper := c.newMapper()
	c.fatalIf(c.call("UnmapPodDevice and TearDownDevice", func() error {
		if err := unmapper.UnmapPodDevice(c.ctx()); err != nil {
			return err
		}
		return unmapper.TearDownDevice(c.ctx(), device)
	}), "UnmapPodDevice and TearDownDevice")
	c.fatalIf(c.tryDetach(c.ctx()), "Detach")
}

func mapAndUnmapCanBeRepeated(c *trial) {
	device := c.mapDevice()
	_, err := os.Stat(device)
	c.fatalIf(err, "the device's path after MapPodDevice")
	files, mounts := takeSnapshot(c, c.dir), readMounts(c)
	c.restart()
	assert.Equal(c, device, c.mapDevice(), "the device's path after MapPodDevice again")
	assert.Empty(c, files.changes(takeSnapshot(c, c.dir)), "what has changed on the disk the second time")
	assert.Empty(c, mounts.changes(readMounts(c), c.dir), "mounts that came (+) and went (-) the second time")
	for range 3 {
		c.unmapDevice(device)
		c.wantNothingMapped()
		c.restart()
	}
}

func unmapOfWhatWasNeverMapped(c *trial) {
	c.unmapDevice("")
	c.wantNothingMapped()
}

func (c *trial) wantNothingMapped() {
	c.Helper()
	assert.Empty(c, filesBelow(c, c.host.Root), "left below the root")
	assert.Empty(c, c.mountsBefore.changes(readMounts(c), c.dir), "mounts that came (+) and went (-)")
}

func blockMappersRefuseHostileNames(c *trial) {
	device := c.mapDevice()
	before := takeSnapshot(c, c.dir)
	plugin := c.plugin().(volume.BlockVolumePlugin)
	unmap := func(name string, uid types.UID) {
		what := fmt.Sprintf("volume %q of pod %q", name, uid)
		_ = c.call(what, func() error {
			unmapper, err := plugin.NewBlockVolumeUnmapper(name, uid)
			if err != nil {
				assert.ErrorIs(c, err, volume.ErrInvalid, what)
				return nil
			}
			return errors.Join(unmapper.UnmapPodDevice(c.ctx()), unmapper.TearDownDevice(c.ctx(), device))
		})
		assert.Empty(c, before.changes(takeSnapshot(c, c.dir)), "what unmapping %s has changed", what)
	}
	for _, name := range hostileNames {
		unmap(name, c.pod.UID)
		unmap(c.spec.Name(), types.UID(name))
		_, err := plugin.NewBlockVolumeMapper(named(c.spec, name), c.pod)
		assert.ErrorIs(c, err, volume.ErrInvalid, "NewBlockVolumeMapper of volume %q", name)
	}
	c.unmapDevice(device)
}
