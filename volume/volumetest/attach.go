// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"context"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
)

// attachChecks are about AttachableVolumePlugins.
var attachChecks = []check{
	{name: "AttachAndDetachCanBeRepeated", run: attachAndDetachCanBeRepeated, needs: can[volume.AttachableVolumePlugin]},
	{name: "ACancelledAttachReturnsAndCanBeRepeated", run: cancelledAttach, needs: can[volume.AttachableVolumePlugin]},
}

// attachable returns the plugin, if it attaches the volume.
func (c *trial) attachable() (plugin volume.AttachableVolumePlugin, ok bool) {
	c.Helper()
	plugin, ok = c.plugin().(volume.AttachableVolumePlugin)
	if !ok {
		return nil, false
	}
	c.fatalIf(c.call("CanAttach", func() (err error) {
		ok, err = plugin.CanAttach(c.spec)
		return err
	}), "CanAttach")
	return plugin, ok
}

func (c *trial) node() types.NodeName {
	if c.host.NodeName == "" {
		return "node"
	}
	return c.host.NodeName
}

// tryStage does what a node does before the first pod can have the volume, if anything.
func (c *trial) tryStage(ctx context.Context) error {
	c.Helper()
	device, err := c.tryAttach(ctx)
	if err != nil {
		return err
	}
	return c.tryMountDevice(ctx, device)
}

// tryUnstage undoes tryStage.
func (c *trial) tryUnstage(ctx context.Context) error {
	c.Helper()
	if err := c.tryUnmountDevice(ctx); err != nil {
		return err
	}
	return c.tryDetach(ctx)
}

// tryAttach returns the device's path, which is empty for what is not attached.
func (c *trial) tryAttach(ctx context.Context) (device string, err error) {
	c.Helper()
	plugin, ok := c.attachable()
	if !ok {
		return "", nil
	}
	err = c.call("Attach", func() error {
		attacher, err := plugin.NewAttacher()
		if err != nil {
			return err
		}
		if device, err = attacher.Attach(ctx, c.spec, c.node()); err != nil {
			return err
		}
		device, err = attacher.WaitForAttach(ctx, c.spec, device)
		return err
	})
	return device, err
}

func (c *trial) tryDetach(ctx context.Context) error {
	c.Helper()
	plugin, ok := c.attachable()
	if !ok {
		return nil
	}
	return c.call("Detach", func() error {
		detacher, err := plugin.NewDetacher()
		if err != nil {
			return err
		}
		name, err := plugin.VolumeName(c.spec)
		if err != nil {
			return err
		}
		return detacher.Detach(ctx, name, c.node())
	})
}

func (c *trial) wantAttached(want volume.Presence, when string) {
	c.Helper()
	plugin, _ := c.attachable()
	var answers map[*volume.Spec]volume.Presence
	c.fatalIf(c.call("Attached", func() error {
		attacher, err := plugin.NewAttacher()
		if err != nil {
			return err
		}
		answers, err = attacher.Attached(c.ctx(), []*volume.Spec{c.spec}, c.node())
		return err
	}), "Attached")
	answer, answered := answers[c.spec]
	require.True(c, answered, "Attached has no answer for the spec that it was asked about")
	assert.Equal(c, want.String(), answer.String(), "Attached %s", when)
}

func attachAndDetachCanBeRepeated(c *trial) {
	if _, ok := c.attachable(); !ok {
		return
	}
	c.wantAttached(volume.Absent, "before Attach")
	c.fatalIf(c.tryDetach(c.ctx()), "Detach of what is not attached")
	device, err := c.tryAttach(c.ctx())
	c.fatalIf(err, "Attach")
	assert.NotEmpty(c, device, "the device's path after WaitForAttach")
	c.wantAttached(volume.Present, "after Attach")
	c.restart()
	again, err := c.tryAttach(c.ctx())
	c.fatalIf(err, "Attach again")
	assert.Equal(c, device, again, "the device's path after Attach again")
	for range 2 {
		c.fatalIf(c.tryDetach(c.ctx()), "Detach")
		c.wantAttached(volume.Absent, "after Detach")
		c.restart()
	}
	c.wantNothing()
}

func cancelledAttach(c *trial) {
	if _, ok := c.attachable(); !ok {
		return
	}
	ctx, cancel := cancelled(c.ctx())
	defer cancel()
	_, _ = c.tryAttach(ctx)
	_, err := c.tryAttach(c.ctx())
	c.fatalIf(err, "Attach after a cancelled one")
	_ = c.tryDetach(ctx)
	c.fatalIf(c.tryDetach(c.ctx()), "Detach after a cancelled one")
	c.wantAttached(volume.Absent, "after Detach")
}
