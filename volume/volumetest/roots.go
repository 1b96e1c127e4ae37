// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/stretchr/testify/assert"

	"github.com/volumekit/volumekit/volume"
)

// rootChecks are about what a plugin finds below the root: what a crash, a reboot or somebody's hands have left there.
var rootChecks = []check{
	{name: "TheRootMayBeASymlink", run: theRootMayBeASymlink},
	{name: "TheUmaskDoesNotMatter", run: theUmaskDoesNotMatter, applies: belowRoot},
	{name: "HalfMadeDirectoriesAreNoObstacle", run: halfMadeDirectoriesAreNoObstacle, applies: belowRoot},
	{name: "WhatWasUnmountedByHandIsNotPresent", run: unmountedByHandIsNotPresent, applies: belowRoot},
	{name: "SetUpAfterAReboot", run: setUpAfterAReboot, applies: belowRoot},
	{name: "TearDownAfterAReboot", run: tearDownAfterAReboot, applies: belowRoot},
	{name: "TearDownRemovesAFileUnderTheMountPoint", run: tearDownRemovesAFileUnderTheMountPoint, applies: belowRoot},
	{name: "SetUpWithAFileUnderTheMountPoint", run: setUpWithAFileUnderTheMountPoint, applies: belowRoot},
}

func theRootMayBeASymlink(c *trial) {
	real, link := filepath.Join(c.dir, "real"), filepath.Join(c.dir, "link")
	c.fatalIf(os.Mkdir(real, 0o755), "prepare")
	c.fatalIf(os.Symlink(real, link), "prepare")
	for _, root := range []string{link, filepath.Join(link, "root")} {
		c.useRoot(root)
		c.setUp()
		c.wantNoChange(c.setUp)
		c.restart()
		c.wantPresence(volume.Present, "to an instance that did not set it up")
		c.tearDown()
		info, err := os.Lstat(link)
		c.fatalIf(err, "the symbolic link after TearDown")
		assert.NotZero(c, info.Mode()&os.ModeSymlink, "the root is no symbolic link any more")
		if left := filesBelow(c, real); len(left) > 0 {
			c.Fatalf("left below the root: %q", left)
		}
	}
}

func theUmaskDoesNotMatter(c *trial) {
	modes := make(map[int]os.FileMode)
	for _, umask := range []int{0, 0o077} {
		func() {
			defer setUmask(setUmask(umask))
			c.setUp()
		}()
		info, err := os.Stat(c.path())
		c.fatalIf(err, "the volume's path after SetUp")
		modes[umask] = info.Mode()
		c.tearDown()
	}
	assert.Equal(c, modes[0].String(), modes[0o077].String(), "the volume's mode with a umask of 0, and of 0077")
}

// halfMadeDirectoriesAreNoObstacle plays a crash between any two of the directories that lead to the volume.
func halfMadeDirectoriesAreNoObstacle(c *trial) {
	c.setUp()
	path := c.path()
	mountsThere := c.mounts().has(path)
	c.tearDown()
	var dirs []string
	for dir := path; len(dir) > len(c.dir); dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
	}
	for _, dir := range slices.Backward(dirs) {
		for _, then := range []func(){c.setUp, func() {}} {
			c.fatalIf(os.MkdirAll(dir, 0o700), "prepare")
			c.restart()
			if dir == path && mountsThere {
				c.wantNotPresent("when there is a bare mount point")
			}
			then()
			c.tearDown()
		}
	}
}

func (c *trial) wantNotPresent(when string) {
	c.Helper()
	if c.presence() == volume.Present {
		c.Fatalf("the volume is present %s", when)
	}
}

// mounts returns what was mounted since the check began.
func (c *trial) mounts() mountTable {
	c.Helper()
	return readMounts(c).below(c.dir).without(c.mountsBefore)
}

// reboot sets the volume up, unmounts all that was mounted for it, and starts the program again. It returns where the
// volume was, and where something was mounted.
func (c *trial) reboot() (path string, points []string) {
	c.Helper()
	c.setUp()
	path, points = c.path(), c.mounts().points()
	for _, point := range slices.Backward(points) {
		unmount(c, point)
	}
	c.restart()
	return path, points
}

func unmountedByHandIsNotPresent(c *trial) {
	if _, points := c.reboot(); len(points) > 0 {
		c.wantNotPresent("although nothing is mounted any more")
	}
	c.tearDown()
}

func setUpAfterAReboot(c *trial) {
	c.reboot()
	c.setUp()
	c.tearDown()
}

func tearDownAfterAReboot(c *trial) {
	c.reboot()
	c.tearDown()
}

func tearDownRemovesAFileUnderTheMountPoint(c *trial) {
	_, points := c.reboot()
	dropFiles(c, points)
	c.tearDown()
}

// setUpWithAFileUnderTheMountPoint lets SetUp refuse, but not lie.
func setUpWithAFileUnderTheMountPoint(c *trial) {
	_, points := c.reboot()
	dropFiles(c, points)
	if err := c.trySetUp(c.ctx(), volume.SetUpOptions{}); err == nil {
		c.wantPresence(volume.Present, "after SetUp")
	}
	c.restart()
	c.tearDown()
}

// dropFiles puts a file into each directory, as a container does that still runs when its volume was unmounted.
func dropFiles(c *trial, dirs []string) {
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue
		}
		c.fatalIf(os.WriteFile(filepath.Join(dir, "dropped"), []byte("dropped"), 0o644), "drop a file under a mount point")
	}
}
