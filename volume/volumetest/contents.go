// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/assert"
)

// contentChecks are about the files in a volume.
var contentChecks = []check{
	{name: "FilesStayUntilTearDown", run: filesStayUntilTearDown},
	{name: "FilesAreGoneAfterTearDown", run: filesAreGoneAfterTearDown, applies: ephemeral},
	{name: "FilesOutliveTearDown", run: filesOutliveTearDown, applies: func(subject Case) bool { return !ephemeral(subject) }},
	{name: "TearDownFollowsNoSymlinkInTheVolume", run: tearDownFollowsNoSymlink, applies: func(subject Case) bool { return !subject.NoData }},
	{name: "TearDownFollowsNoSymlinkInPlaceOfTheVolume", run: tearDownFollowsNoSymlinkInPlaceOfTheVolume, applies: belowRoot},
	{name: "TearDownRemovesAwkwardFiles", run: tearDownRemovesAwkwardFiles, applies: ephemeral},
	{name: "TearDownRemovesATreeThatIsDeeperThanAPath", run: tearDownRemovesADeepTree, applies: ephemeral},
}

const hello = "hello"

func filesStayUntilTearDown(c *trial) {
	c.setUp()
	dir, ok := c.writable()
	if !ok {
		c.tearDown()
		return
	}
	file := filepath.Join(dir, "volumetest-file")
	c.write(file, hello)
	c.wantFile(file, hello)
	c.setUp()
	c.wantFile(file, hello)
	c.restart()
	c.setUp()
	c.wantFile(file, hello)
	c.tearDown()
}

func filesAreGoneAfterTearDown(c *trial) {
	c.setUp()
	dir, ok := c.writable()
	if ok {
		file := filepath.Join(dir, "volumetest-file")
		c.write(file, hello)
		c.tearDown()
		c.setUp()
		assert.NoFileExists(c, file)
	}
	c.tearDown()
}

func filesOutliveTearDown(c *trial) {
	c.setUp()
	if dir, ok := c.writable(); ok {
		file := filepath.Join(dir, "volumetest-file")
		c.write(file, hello)
		c.fatalIf(c.tryTearDown(c.ctx()), "TearDown")
		c.wantNothing()
		c.restart()
		c.setUp()
		c.wantFile(file, hello)
	}
	c.tearDown()
}

// outside makes a directory, with a file, that is no part of the volume.
func (c *trial) outside() string {
	c.Helper()
	dir := filepath.Join(c.dir, "outside")
	c.fatalIf(os.Mkdir(dir, 0o755), "prepare")
	c.fatalIf(os.WriteFile(filepath.Join(dir, "sentinel"), []byte(hello), 0o644), "prepare")
	return dir
}

func tearDownFollowsNoSymlink(c *trial) {
	outside := c.outside()
	c.setUp()
	dir, ok := c.writable()
	if !ok {
		c.tearDown()
		return
	}
	for name, target := range map[string]string{
		"volumetest-file": filepath.Join(outside, "sentinel"), "volumetest-dir": outside,
		"volumetest-dangling": filepath.Join(outside, "absent"), "volumetest-dots": "..", "volumetest-loop": "volumetest-loop",
	} {
		link := filepath.Join(dir, name)
		c.written = append(c.written, link)
		c.fatalIf(os.Symlink(target, link), "prepare")
	}
	before := takeSnapshot(c, outside)
	c.tearDown()
	assert.Empty(c, before.changes(takeSnapshot(c, outside)), "what has changed outside of the volume")
}

// tearDownFollowsNoSymlinkInPlaceOfTheVolume lets TearDown refuse, but not go outside.
func tearDownFollowsNoSymlinkInPlaceOfTheVolume(c *trial) {
	outside := c.outside()
	path, _ := c.reboot()
	c.fatalIf(os.RemoveAll(path), "prepare")
	c.fatalIf(os.Symlink(outside, path), "prepare")
	before := takeSnapshot(c, outside)
	err := c.tryTearDown(c.ctx())
	assert.Empty(c, before.changes(takeSnapshot(c, outside)), "what has changed outside of the volume")
	if err == nil {
		c.wantNothing()
		return
	}
	c.fatalIf(os.Remove(path), "clean up")
	c.tearDown()
}

// tearDownRemovesAwkwardFiles has what a container's program may leave behind.
func tearDownRemovesAwkwardFiles(c *trial) {
	c.setUp()
	dir, ok := c.writable()
	if ok {
		for _, name := range []string{"-rf", " ", "new\nline", "\xff\xfe", "..data", strings.Repeat("n", 255)} {
			c.write(filepath.Join(dir, name), hello)
		}
		for i := range 300 {
			c.write(filepath.Join(dir, fmt.Sprint("many-", i)), "")
		}
		// Who is not root may not list, enter or change these without more ado.
		for _, mode := range []os.FileMode{0, 0o444, 0o555, 0o111} {
			closed := filepath.Join(dir, fmt.Sprintf("closed-%03o", mode))
			c.makeDir(closed)
			c.makeDir(filepath.Join(closed, "inner"))
			c.write(filepath.Join(closed, "inner", "file"), hello)
			c.fatalIf(os.Chmod(closed, mode), "prepare")
		}
	}
	c.tearDown()
}

// tearDownRemovesADeepTree has paths of 8,000 bytes, twice as long as a system call accepts.
func tearDownRemovesADeepTree(c *trial) {
	c.setUp()
	dir, ok := c.writable()
	if ok {
		at, err := os.OpenRoot(dir)
		c.fatalIf(err, "open the volume")
		name := strings.Repeat("d", 200)
		for range 40 {
			c.fatalIf(at.Mkdir(name, 0o755), "make a directory in the volume")
			below, err := at.OpenRoot(name)
			c.fatalIf(at.Close(), "close")
			c.fatalIf(err, "open a directory of the volume")
			at = below
		}
		c.fatalIf(at.Close(), "close")
	}
	c.tearDown()
}
