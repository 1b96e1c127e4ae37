// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"os"
	"path/filepath"

	"github.com/stretchr/testify/assert"

	"github.com/volumekit/volumekit/volume"
)

// recycleChecks are about RecyclableVolumePlugins.
var recycleChecks = []check{
	{name: "RecycleRemovesTheFilesAndKeepsTheVolume", run: recycleRemovesTheFiles, needs: can[volume.RecyclableVolumePlugin]},
}

func recycleRemovesTheFiles(c *trial) {
	plugin := c.plugin().(volume.RecyclableVolumePlugin)
	if !c.subject.Recyclable || c.spec.PersistentVolume == nil {
		c.Log("not tested: the plugin is a RecyclableVolumePlugin, but the case is no PersistentVolume with Case.Recyclable set")
		return
	}
	outside := c.outside()
	c.setUp()
	dir, ok := c.writable()
	if !ok {
		c.tearDown()
		return
	}
	c.makeDir(filepath.Join(dir, "volumetest-dir"))
	c.write(filepath.Join(dir, "volumetest-dir", "file"), hello)
	c.write(filepath.Join(dir, ".volumetest-hidden"), hello)
	c.fatalIf(os.Symlink(outside, filepath.Join(dir, "volumetest-link")), "prepare")
	c.fatalIf(c.tryTearDown(c.ctx()), "TearDown")
	before := takeSnapshot(c, outside)
	for range 2 {
		c.fatalIf(c.call("Recycle", func() error {
			recycler, err := plugin.NewRecycler()
			if err != nil {
				return err
			}
			return recycler.Recycle(c.ctx(), c.spec.PersistentVolume)
		}), "Recycle")
	}
	assert.Empty(c, before.changes(takeSnapshot(c, outside)), "what Recycle has changed outside of the volume")
	c.setUp()
	entries, err := os.ReadDir(dir)
	c.fatalIf(err, "the volume after Recycle")
	assert.Empty(c, entries, "what is in the volume after Recycle")
	c.tearDown()
}
