// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
)

// nameChecks are about the names that become those of directories.
var nameChecks = []check{
	{name: "NewMounterRefusesHostileNames", run: newMounterRefusesHostileNames},
	{name: "NewUnmounterRefusesHostileNamesOrDoesNoHarm", run: newUnmounterRefusesHostileNames},
	{name: "LongNamesAreServed", run: longNamesAreServed, applies: belowRoot},
}

// hostileNames are no names of a directory in another one.
var hostileNames = []string{
	"", ".", "..", "/", "a/b", "../x", "../../x", "/etc", "a/../../b", "a/", "./a",
	"nul\x00byte", "new\nline", strings.Repeat("n", 300),
}

func newMounterRefusesHostileNames(c *trial) {
	c.restart()
	before := takeSnapshot(c, c.dir)
	refused := func(what string, mounter volume.Mounter, err error) {
		switch {
		case err != nil:
			assert.ErrorIs(c, err, volume.ErrInvalid, what)
		case !c.subject.InPlace:
			c.Errorf("%s: NewMounter accepts it, for a volume at %q", what, mounter.Path())
		}
	}
	for _, name := range hostileNames {
		mounter, err := c.mounterFor(named(c.spec, name), c.pod)
		refused(fmt.Sprintf("volume %q", name), mounter, err)
		pod := c.pod.DeepCopy()
		pod.UID = types.UID(name)
		mounter, err = c.mounterFor(c.spec, pod)
		refused(fmt.Sprintf("pod UID %q", name), mounter, err)
	}
	assert.Empty(c, before.changes(takeSnapshot(c, c.dir)), "what has changed on the disk")
}

// newUnmounterRefusesHostileNames has files everywhere around the volume, and the volume itself, which have to survive.
func newUnmounterRefusesHostileNames(c *trial) {
	c.setUp()
	for dir := c.host.PodVolumesDir(c.pod.UID); len(dir) >= len(c.dir); dir = filepath.Dir(dir) {
		for _, name := range []string{"sentinel", "x/sentinel", "b/sentinel"} {
			file := filepath.Join(dir, name)
			c.fatalIf(os.MkdirAll(filepath.Dir(file), 0o755), "prepare")
			c.fatalIf(os.WriteFile(file, nil, 0o644), "prepare")
		}
	}
	before, mounts := c.snapshot(), readMounts(c)
	tearDown := func(name string, uid types.UID) {
		unmounter, err := c.unmounterFor(name, uid)
		if err != nil {
			assert.ErrorIs(c, err, volume.ErrInvalid, "NewUnmounter for volume %q of pod %q", name, uid)
			return
		}
		_ = c.call("TearDown", func() error { return unmounter.TearDown(c.ctx(), c.tearDownOptions()) })
		assert.Empty(c, before.changes(c.snapshot()), "what TearDown of volume %q of pod %q has changed", name, uid)
	}
	for _, name := range hostileNames {
		tearDown(name, c.pod.UID)
		tearDown(c.spec.Name(), types.UID(name))
		tearDown(name, types.UID(name))
	}
	assert.Empty(c, mounts.changes(readMounts(c), c.dir), "mounts that came (+) and went (-)")
	c.clean()
	c.fatalIf(c.tryTearDown(c.ctx()), "TearDown")
}

// longNamesAreServed uses names as long as Kubernetes allows: a DNS label for a volume of a pod, a DNS subdomain for a
// PersistentVolume.
func longNamesAreServed(c *trial) {
	length := 63
	if c.spec.PersistentVolume != nil {
		length = 253
	}
	name := strings.Repeat("n", length)
	for i := range c.pod.Spec.Volumes {
		if c.pod.Spec.Volumes[i].Name == c.spec.Name() {
			c.pod.Spec.Volumes[i].Name = name
		}
	}
	c.spec = named(c.spec, name)
	c.specBefore, c.podBefore = copySpec(c.spec), c.pod.DeepCopy()
	c.setUp()
	c.restart()
	c.tearDown()
}
