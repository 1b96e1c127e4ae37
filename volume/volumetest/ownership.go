// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"os"
	"path/filepath"

	"github.com/stretchr/testify/assert"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/volume"
)

// ownershipChecks are about the pod's fsGroup. Who is not root cannot give files away, and skips them.
var ownershipChecks = []check{
	{name: "FSGroupOwnsManagedVolumesOnly", run: fsGroupOwnsManagedVolumesOnly, mounts: true},
}

// fsGroup is a group that owns nothing otherwise.
const fsGroup = 54321

func (c *trial) setUpForGroup() {
	c.Helper()
	options := volume.SetUpOptions{FSGroup: ptr.To[int64](fsGroup), Warn: c.ears.hearWarning}
	c.fatalIf(c.trySetUp(c.ctx(), options), "SetUp with an FSGroup")
	c.wantPresence(volume.Present, "after SetUp")
}

func fsGroupOwnsManagedVolumesOnly(c *trial) {
	c.setUp()
	if !c.found().Attributes().Managed {
		c.wantNoChange(c.setUpForGroup)
		c.tearDown()
		return
	}
	c.tearDown()
	c.setUpForGroup()
	info, err := os.Stat(c.path())
	c.fatalIf(err, "the volume's path after SetUp")
	assert.Equal(c, fsGroup, group(info), "the group of %s", c.path())
	if info.IsDir() {
		assert.NotZero(c, info.Mode()&os.ModeSetgid, "the setgid bit of %s", c.path())
	}
	if dir, ok := c.writable(); ok {
		file := filepath.Join(dir, "volumetest-file")
		c.write(file, hello)
		info, err := os.Stat(file)
		c.fatalIf(err, "a file in the volume")
		assert.Equal(c, fsGroup, group(info), "the group of a file that was made in the volume")
	}
	c.wantNoChange(c.setUpForGroup)
	c.tearDown()
}
