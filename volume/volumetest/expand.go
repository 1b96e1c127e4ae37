// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volumekit/volumekit/volume"
)

// expandChecks are about ExpandableVolumePlugins and NodeExpandableVolumePlugins.
var expandChecks = []check{
	{name: "ExpandCanBeRepeated", run: expandCanBeRepeated, needs: can[volume.ExpandableVolumePlugin]},
	{name: "NodeExpandCanBeRepeated", run: nodeExpandCanBeRepeated, needs: can[volume.NodeExpandableVolumePlugin]},
}

// expandTo returns the size that the volume can be grown to, if the case has one.
func (c *trial) expandTo(capability string) (size resource.Quantity, ok bool) {
	c.Helper()
	if c.subject.ExpandTo == nil {
		c.Logf("not tested: the plugin is %s, but Case.ExpandTo is not set", capability)
		return resource.Quantity{}, false
	}
	return *c.subject.ExpandTo, true
}

func expandCanBeRepeated(c *trial) {
	plugin := c.plugin().(volume.ExpandableVolumePlugin)
	size, ok := c.expandTo("an ExpandableVolumePlugin")
	if !ok {
		return
	}
	for range 2 {
		var result volume.ExpandResult
		c.fatalIf(c.call("Expand", func() error {
			expander, err := plugin.NewExpander()
			if err != nil {
				return err
			}
			result, err = expander.Expand(c.ctx(), c.spec, size)
			return err
		}), "Expand")
		assert.GreaterOrEqual(c, result.Size.Cmp(size), 0, "the size is %s after Expand to %s", &result.Size, &size)
	}
}

func nodeExpandCanBeRepeated(c *trial) {
	plugin := c.plugin().(volume.NodeExpandableVolumePlugin)
	size, ok := c.expandTo("a NodeExpandableVolumePlugin")
	if !ok {
		return
	}
	c.setUp()
	device, err := c.tryAttach(c.ctx())
	c.fatalIf(err, "Attach again")
	options := volume.NodeExpandOptions{Spec: c.spec, Size: size, DevicePath: device, VolumePath: c.path()}
	_, options.DeviceMountPath, _ = c.deviceMountable()
	for range 2 {
		var grown resource.Quantity
		c.fatalIf(c.call("NodeExpand", func() error {
			expander, err := plugin.NewNodeExpander()
			if err != nil {
				return err
			}
			grown, err = expander.NodeExpand(c.ctx(), options)
			return err
		}), "NodeExpand")
		assert.GreaterOrEqual(c, grown.Cmp(size), 0, "the size is %s after NodeExpand to %s", &grown, &size)
		c.wantPresence(volume.Present, "after NodeExpand")
	}
	c.tearDown()
}
