// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"os"
	"path/filepath"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/volume"
)

// foreignMountChecks are about what somebody else has mounted inside a volume.
var foreignMountChecks = []check{
	{name: "TearDownLeavesABindMountAlone", mounts: true, run: func(c *trial) {
		leavesForeignMountAlone(c, func(outside, point string) {
			c.makeDir(point)
			bindMount(c, outside, point)
		})
	}},
	{name: "TearDownLeavesABoundFileAlone", mounts: true, run: func(c *trial) {
		leavesForeignMountAlone(c, func(outside, point string) {
			c.write(point, "")
			bindMount(c, filepath.Join(outside, "sentinel"), point)
		})
	}},
	{name: "TearDownLeavesATmpfsAlone", mounts: true, run: func(c *trial) {
		leavesForeignMountAlone(c, func(_, point string) {
			c.makeDir(point)
			mountTmpfs(c, point, "size=64k")
			c.fatalIf(os.WriteFile(filepath.Join(point, "sentinel"), []byte(hello), 0o644), "prepare")
		})
	}},
}

// leavesForeignMountAlone has mount mount something at a point deep in the volume, which TearDown has to leave as it is,
// and to name, until it is unmounted.
func leavesForeignMountAlone(c *trial, mount func(outside, point string)) {
	outside := c.outside()
	c.setUp()
	dir, ok := c.writable()
	if !ok {
		c.tearDown()
		return
	}
	inner := filepath.Join(dir, "volumetest-dir")
	point := filepath.Join(inner, "mounted")
	c.makeDir(inner)
	c.write(filepath.Join(inner, "file"), hello)
	mount(outside, point)
	before, mounted := takeSnapshot(c, outside, point), readMounts(c).below(point)

	for _, again := range []string{"", " again"} {
		c.restart()
		err := c.tryTearDown(c.ctx())
		assert.Empty(c, mounted.changes(readMounts(c).below(point), point), "foreign mounts that came (+) and went (-) with TearDown%s", again)
		assert.Empty(c, before.changes(takeSnapshot(c, outside, point)), "what TearDown%s has changed in the foreign mount", again)
		if c.subject.InPlace {
			require.NoError(c, err, "TearDown%s takes nothing away, so nothing is in its way", again)
			continue
		}
		require.Error(c, err, "TearDown%s, with a foreign mount inside", again)
		assert.ErrorIs(c, err, volume.ErrInUse)
		assert.ErrorContains(c, err, point)
	}
	if c.Failed() {
		return
	}
	unmount(c, point)
	c.tearDown()
	assert.FileExists(c, filepath.Join(outside, "sentinel"))
}
