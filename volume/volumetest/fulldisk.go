// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/stretchr/testify/assert"

	"github.com/volumekit/volumekit/volume"
)

// fullDiskChecks have the root on a file system that is full. By the number of inodes they also stop SetUp after each file
// and directory that it makes.
var fullDiskChecks = []check{
	{name: "SetUpOnADiskWithoutInodes", run: setUpWithoutInodes, mounts: true, applies: belowRoot},
	{name: "SetUpOnADiskWithoutSpace", run: setUpWithoutSpace, mounts: true, applies: belowRoot},
	{name: "TearDownOnAFullDisk", run: tearDownOnAFullDisk, mounts: true, applies: belowRoot},
}

// mostInodes is how many inodes one volume may need before the suite gives up.
const mostInodes = 200

// useDisk has the root on a tmpfs of its own. Data is its options, as in tmpfs(5).
func (c *trial) useDisk(data string) (disk string) {
	c.Helper()
	disk = filepath.Join(c.dir, "disk")
	c.fatalIf(os.MkdirAll(disk, 0o755), "prepare")
	mountTmpfs(c, disk, data)
	c.mountsBefore = readMounts(c)
	c.useRoot(filepath.Join(disk, "root"))
	return disk
}

// dropDisk takes away what useDisk made.
func (c *trial) dropDisk(disk string) {
	c.Helper()
	unmount(c, disk)
	c.mountsBefore = readMounts(c)
}

func setUpWithoutInodes(c *trial) {
	for inodes := 1; inodes <= mostInodes; inodes++ {
		disk := c.useDisk(fmt.Sprintf("nr_inodes=%d", inodes))
		enough := c.fullThenFreed(func() { remountTmpfs(c, disk, "nr_inodes=10000") })
		c.dropDisk(disk)
		if enough {
			return
		}
	}
	c.Fatalf("more than %d inodes for one volume", mostInodes)
}

func setUpWithoutSpace(c *trial) {
	disk := c.useDisk("size=1m")
	filler := fill(c, disk)
	c.fullThenFreed(func() { c.fatalIf(os.Remove(filler), "free the disk") })
	c.dropDisk(disk)
}

// fullThenFreed sets the volume up on a full disk, takes it away there, and sets it up after the disk was freed. It
// reports whether the first SetUp succeeded.
func (c *trial) fullThenFreed(free func()) bool {
	c.Helper()
	err := c.trySetUp(c.ctx(), volume.SetUpOptions{})
	if err == nil {
		c.wantPresence(volume.Present, "after SetUp has succeeded")
		c.tearDown()
		return true
	}
	c.wantFullDisk(err)
	c.restart()
	c.tearDown()

	err = c.trySetUp(c.ctx(), volume.SetUpOptions{})
	free()
	c.mountsBefore = readMounts(c)
	c.restart()
	if err != nil {
		c.setUp()
	}
	c.tearDown()
	return false
}

// wantFullDisk fails the test unless the error says that the disk is full, and where.
func (c *trial) wantFullDisk(err error) {
	c.Helper()
	if !errors.Is(err, volume.ErrExhausted) && !errors.Is(err, syscall.ENOSPC) {
		c.Errorf("the disk is full, but the error matches neither ErrExhausted nor ENOSPC: %v", err)
	}
	assert.True(c, strings.Contains(err.Error(), c.host.Root) || strings.Contains(err.Error(), c.spec.Name()),
		"the error names neither a path nor the volume: %v", err)
}

func tearDownOnAFullDisk(c *trial) {
	disk := c.useDisk("size=1m,nr_inodes=1000")
	c.setUp()
	fill(c, disk)
	c.restart()
	c.tearDown()
	c.dropDisk(disk)
}

// fill uses up the space of the disk, with a file, and its inodes, if they are limited to what can be filled in a moment.
func fill(c *trial, disk string) (file string) {
	c.Helper()
	const few = 2000
	for i := range few {
		if os.Mkdir(filepath.Join(disk, fmt.Sprint("filler-", i)), 0o755) != nil {
			break
		}
	}
	file = filepath.Join(disk, "filler")
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		c.fatalIf(os.Remove(filepath.Join(disk, "filler-0")), "prepare")
		f, err = os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o644)
	}
	c.fatalIf(err, "fill the disk")
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	assert.ErrorIs(c, err, syscall.ENOSPC)
	c.fatalIf(f.Close(), "fill the disk")
	return file
}
