// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"context"
	"os"
	"strings"

	"github.com/stretchr/testify/assert"

	"github.com/volumekit/volumekit/volume"
)

// deviceChecks are about DeviceMountableVolumePlugins.
var deviceChecks = []check{
	{name: "MountDeviceAndUnmountDeviceCanBeRepeated", run: mountDeviceCanBeRepeated, needs: can[volume.DeviceMountableVolumePlugin]},
	{name: "TheDeviceStaysMountedWhileAPodGoes", run: theDeviceStaysMounted, needs: can[volume.DeviceMountableVolumePlugin]},
}

// deviceMountable returns the plugin and the place where it mounts the volume for the node, if it does.
func (c *trial) deviceMountable() (plugin volume.DeviceMountableVolumePlugin, path string, ok bool) {
	c.Helper()
	plugin, ok = c.plugin().(volume.DeviceMountableVolumePlugin)
	if !ok {
		return nil, "", false
	}
	c.fatalIf(c.call("DeviceMountPath", func() (err error) {
		if ok, err = plugin.CanDeviceMount(c.spec); !ok || err != nil {
			return err
		}
		mounter, err := plugin.NewDeviceMounter()
		if err != nil {
			return err
		}
		path, err = mounter.DeviceMountPath(c.spec)
		return err
	}), "DeviceMountPath")
	return plugin, path, ok
}

func (c *trial) tryMountDevice(ctx context.Context, device string) error {
	c.Helper()
	plugin, path, ok := c.deviceMountable()
	if !ok {
		return nil
	}
	return c.call("MountDevice", func() error {
		mounter, err := plugin.NewDeviceMounter()
		if err != nil {
			return err
		}
		return mounter.MountDevice(ctx, c.spec, device, path, volume.DeviceMountOptions{})
	})
}

func (c *trial) tryUnmountDevice(ctx context.Context) error {
	c.Helper()
	plugin, path, ok := c.deviceMountable()
	if !ok {
		return nil
	}
	return c.call("UnmountDevice", func() error {
		unmounter, err := plugin.NewDeviceUnmounter()
		if err != nil {
			return err
		}
		return unmounter.UnmountDevice(ctx, path)
	})
}

func mountDeviceCanBeRepeated(c *trial) {
	_, path, ok := c.deviceMountable()
	if !ok {
		return
	}
	assert.True(c, strings.HasPrefix(path, c.host.Root+"/"), "%s is not below the root", path)
	c.fatalIf(c.tryUnmountDevice(c.ctx()), "UnmountDevice of what is not mounted")
	c.fatalIf(c.tryStage(c.ctx()), "Attach and MountDevice")
	files, mounts := takeSnapshot(c, c.dir), readMounts(c)
	c.restart()
	c.fatalIf(c.tryStage(c.ctx()), "Attach and MountDevice again")
	assert.Empty(c, files.changes(takeSnapshot(c, c.dir)), "what MountDevice has changed on the disk the second time")
	assert.Empty(c, mounts.changes(readMounts(c), c.dir), "mounts that came (+) and went (-) the second time")
	for range 3 {
		c.fatalIf(c.tryUnmountDevice(c.ctx()), "UnmountDevice")
		c.restart()
	}
	c.fatalIf(c.tryUnstage(c.ctx()), "Detach")
	c.wantNothing()
}

// theDeviceStaysMounted takes the volume from one pod while the node keeps it.
func theDeviceStaysMounted(c *trial) {
	plugin, path, ok := c.deviceMountable()
	if !ok {
		return
	}
	c.setUp()
	var refs []string
	refsOf := func() error {
		var err error
		refs, err = plugin.DeviceMountRefs(c.ctx(), path)
		return err
	}
	c.fatalIf(c.call("DeviceMountRefs", refsOf), "DeviceMountRefs")
	assert.NotContains(c, refs, path, "DeviceMountRefs lists the other places")
	_, unused := os.Stat(path) // a volume that turns out to need no mount of its own has nothing there
	unmounter := c.newUnmounter()
	c.fatalIf(c.call("TearDown", func() error { return unmounter.TearDown(c.ctx(), c.tearDownOptions()) }), "TearDown")
	if unused == nil {
		_, err := os.Stat(path)
		assert.NoError(c, err, "the place for all pods after one has let go")
	}
	c.fatalIf(c.call("DeviceMountRefs", refsOf), "DeviceMountRefs")
	assert.Empty(c, refs, "DeviceMountRefs after the only pod has let go")
	c.setUp()
	c.tearDown()
}
