// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/stretchr/testify/assert"

	"github.com/volumekit/volumekit/volume"
)

// metricsChecks are about Mounters that are MetricsProviders.
var metricsChecks = []check{
	{name: "MetricsGrowWithTheFiles", run: metricsGrowWithTheFiles},
	{name: "CancelledMetricsReturn", run: cancelledMetricsReturn},
}

func (c *trial) metrics() (measured volume.Metrics, ok bool) {
	c.Helper()
	provider, ok := c.found().(volume.MetricsProvider)
	if !ok {
		return volume.Metrics{}, false
	}
	c.fatalIf(c.call("Metrics", func() (err error) {
		measured, err = provider.Metrics(c.ctx())
		return err
	}), "Metrics")
	return measured, true
}

func metricsGrowWithTheFiles(c *trial) {
	c.setUp()
	before, ok := c.metrics()
	if !ok {
		c.Log("not tested: the Mounter is no MetricsProvider")
		c.tearDown()
		return
	}
	assert.False(c, before.Time.IsZero(), "Metrics.Time")
	for name, number := range map[string]int64{
		"Used": before.Used, "Limit": before.Limit, "Capacity": before.Capacity, "Available": before.Available,
		"InodesUsed": before.InodesUsed, "Inodes": before.Inodes, "InodesFree": before.InodesFree,
	} {
		assert.GreaterOrEqual(c, number, int64(0), "Metrics.%s", name)
	}
	assert.LessOrEqual(c, before.Available, before.Capacity, "Metrics.Available, and Capacity")
	assert.LessOrEqual(c, before.InodesFree, before.Inodes, "Metrics.InodesFree, and Inodes")
	if dir, ok := c.writable(); ok && !c.subject.NoData {
		const size = 256 << 10
		file := filepath.Join(dir, "volumetest-file")
		c.write(file, "")
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		c.fatalIf(err, "write into the volume")
		_, err = f.Write(bytes.Repeat([]byte("volumetest"), size/10+1))
		c.fatalIf(err, "write into the volume")
		// Some file systems give a file its blocks, or count them, when all has to be on the disk.
		c.fatalIf(syncFileSystem(f), "sync the file system of the volume")
		c.fatalIf(f.Close(), "write into the volume")
		after, _ := c.metrics()
		assert.GreaterOrEqual(c, after.Used, before.Used+size, "Metrics.Used after %d bytes were written", size)
		if before.InodesUsed > 0 {
			assert.Greater(c, after.InodesUsed, before.InodesUsed, "Metrics.InodesUsed after a file was written")
		}
		assert.False(c, after.Time.Before(before.Time), "Metrics.Time has gone back")
	}
	c.tearDown()
}

func cancelledMetricsReturn(c *trial) {
	c.setUp()
	if provider, ok := c.found().(volume.MetricsProvider); ok {
		ctx, cancel := cancelled(c.ctx())
		defer cancel()
		_ = c.call("Metrics", func() error {
			_, err := provider.Metrics(ctx)
			return err
		})
	}
	c.tearDown()
}
