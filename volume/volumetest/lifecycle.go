// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
)

// lifecycleChecks are about the way of one volume from SetUp to TearDown.
var lifecycleChecks = []check{
	{name: "VolumeNameIsStable", run: volumeNameIsStable},
	{name: "MountersComeWithoutIO", run: mountersComeWithoutIO},
	{name: "MountersComeWithoutAskingTheRoot", run: mountersComeWithoutAskingTheRoot, mounts: true},
	{name: "SetUpMakesItPresentAndTearDownAbsent", run: setUpAndTearDown},
	{name: "SetUpAgainChangesNothing", run: setUpAgainChangesNothing},
	{name: "SetUpByANewInstanceChangesNothing", run: setUpByANewInstanceChangesNothing},
	{name: "TearDownCanBeRepeated", run: tearDownCanBeRepeated},
	{name: "TearDownOfWhatWasNeverSetUp", run: tearDownOfWhatWasNeverSetUp},
	{name: "TearDownByANewInstance", run: tearDownByANewInstance},
	{name: "SetUpAfterTearDown", run: setUpAfterTearDown},
	{name: "ReadOnlyIsKnown", run: readOnlyIsKnown},
	{name: "SecretsShowNowhere", run: secretsShowNowhere},
}

func volumeNameIsStable(c *trial) {
	var names []string
	for range 2 {
		c.restart()
		for _, spec := range []*volume.Spec{c.spec, copySpec(c.spec)} {
			var name string
			c.fatalIf(c.call("VolumeName", func() (err error) {
				name, err = c.plugin().VolumeName(spec)
				return err
			}), "VolumeName")
			names = append(names, name)
		}
	}
	assert.NotEmpty(c, names[0])
	for _, name := range names[1:] {
		assert.Equal(c, names[0], name, "VolumeName of the same spec")
	}
}

func mountersComeWithoutIO(c *trial) {
	c.restart()
	before := takeSnapshot(c, c.dir)
	c.useOnlyNames()
	assert.Empty(c, before.changes(takeSnapshot(c, c.dir)), "what has changed on the disk")
	assert.Empty(c, c.mounter.Calls(), "mounts")
}

// mountersComeWithoutAskingTheRoot has the root hang: what does I/O on it, be it a stat, does not come back.
func mountersComeWithoutAskingTheRoot(c *trial) {
	real, dead, link := filepath.Join(c.dir, "real"), filepath.Join(c.dir, "dead"), filepath.Join(c.dir, "link")
	for _, dir := range []string{real, dead} {
		c.fatalIf(os.Mkdir(dir, 0o755), "prepare")
	}
	c.fatalIf(os.Symlink(real, link), "prepare")
	c.useRoot(filepath.Join(link, "root"))
	c.restart()
	kill := mountns.DeadFUSE(c, dead)
	c.fatalIf(os.Remove(link), "prepare")
	c.fatalIf(os.Symlink(dead, link), "prepare")
	c.useOnlyNames()
	kill()
	unmount(c, dead)
}

// useOnlyNames calls all that has to do without I/O.
func (c *trial) useOnlyNames() {
	c.Helper()
	plugin, mounter, unmounter := c.plugin(), c.newMounter(), c.newUnmounter()
	c.fatalIf(c.call("what has to do without I/O", func() error {
		_ = mounter.Path()
		_ = mounter.Attributes()
		_ = unmounter.Path()
		_ = plugin.CanSupport(c.spec)
		_, err := plugin.VolumeName(c.spec)
		return err
	}), "VolumeName")
}

func setUpAndTearDown(c *trial) {
	if !c.subject.InPlace {
		c.wantPresence(volume.Absent, "before SetUp")
	}
	before := takeSnapshot(c, c.dir)
	c.presence()
	assert.Empty(c, before.changes(takeSnapshot(c, c.dir)), "what Presence has changed on the disk")

	c.setUp()
	path := c.path()
	_, err := os.Stat(path)
	require.NoError(c, err, "the volume's path after SetUp")
	c.restart()
	assert.Equal(c, path, c.path(), "Path of another instance's Mounter")
	if !c.subject.InPlace {
		assert.Equal(c, path, c.newUnmounter().Path(), "Path of the Unmounter")
		assert.True(c, strings.HasPrefix(path, c.host.PodDir(c.pod.UID)+"/"), "%s is not in the pod's directory", path)
	}
	c.wantPresence(volume.Present, "to an instance that did not set it up")
	c.tearDown()
}

func setUpAgainChangesNothing(c *trial) {
	c.setUp()
	mounter := c.newMounter()
	c.wantNoChange(func() {
		c.fatalIf(c.call("SetUp", func() error { return mounter.SetUp(c.ctx(), volume.SetUpOptions{}) }), "SetUp again")
		c.fatalIf(c.call("SetUp", func() error { return mounter.SetUp(c.ctx(), volume.SetUpOptions{}) }), "SetUp, the third time")
	})
	c.tearDown()
}

func setUpByANewInstanceChangesNothing(c *trial) {
	c.setUp()
	c.restart()
	c.wantNoChange(c.setUp)
	c.tearDown()
}

// wantNoChange fails the test if f changes anything that is on the disk or mounted.
func (c *trial) wantNoChange(f func()) {
	c.Helper()
	files, mounts := c.snapshot(), readMounts(c)
	f()
	assert.Empty(c, files.changes(c.snapshot()), "what has changed on the disk")
	assert.Empty(c, mounts.changes(readMounts(c), c.dir), "mounts that came (+) and went (-)")
}

// snapshot looks at the trial's directory and at the volume. Of one that is in place it sees only the path itself, since
// that may be as large as the host.
func (c *trial) snapshot() snapshot {
	c.Helper()
	seen := takeSnapshot(c, c.dir)
	path := c.path()
	if info, err := os.Lstat(path); err == nil {
		seen[path] = describe(info)
	}
	return seen
}

func tearDownCanBeRepeated(c *trial) {
	c.setUp()
	unmounter := c.newUnmounter()
	c.tearDown()
	for range 2 {
		c.fatalIf(c.call("TearDown", func() error { return unmounter.TearDown(c.ctx(), c.tearDownOptions()) }), "TearDown again")
	}
	c.tearDown()
}

func tearDownOfWhatWasNeverSetUp(c *trial) {
	c.tearDown()
	// The same, with somebody else's volumes around.
	neighbour := filepath.Join(c.host.PodVolumesDir(c.pod.UID), "example.com~other", "neighbour")
	c.fatalIf(os.MkdirAll(neighbour, 0o755), "prepare")
	before := takeSnapshot(c, neighbour)
	c.tearDown()
	assert.Empty(c, before.changes(takeSnapshot(c, neighbour)), "what has changed in another plugin's volume")
}

func tearDownByANewInstance(c *trial) {
	c.setUp()
	c.restart()
	c.tearDown()
}

func setUpAfterTearDown(c *trial) {
	for range 3 {
		c.setUp()
		c.tearDown()
	}
}

func readOnlyIsKnown(c *trial) {
	c.setUp()
	if c.spec.ReadOnly {
		assert.True(c, c.found().Attributes().ReadOnly, "Attributes.ReadOnly of a volume that its claim says is read-only")
	}
	c.tearDown()
}

// secretsShowNowhere looks for canaries on the disk. In what is said they are looked for by every check.
func secretsShowNowhere(c *trial) {
	if len(c.config.Canaries) == 0 {
		c.Log("not tested: Config.Canaries is empty")
		return
	}
	c.setUp()
	path := c.path()
	for _, file := range filesBelow(c, c.host.Root) {
		file = filepath.Join(c.host.Root, file)
		if strings.HasPrefix(file, path+"/") {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			continue // Sockets and the like hold nothing.
		}
		if _, found := c.ears.reveals(file + string(content)); found {
			c.Errorf("a secret shows in %s", file)
		}
	}
	c.tearDown()
}
