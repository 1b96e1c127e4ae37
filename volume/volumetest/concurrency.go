// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
)

// concurrencyChecks are about many volumes at once. One volume is used by one goroutine at a time.
var concurrencyChecks = []check{
	{name: "AHundredVolumesAtOnce", run: aHundredVolumesAtOnce},
	{name: "VolumesComeAndGoBesideEachOther", run: volumesComeAndGo},
}

// oneOfMany is one volume of one pod, used by one goroutine with the instance that all share.
type oneOfMany struct {
	c    *trial
	spec *volume.Spec
	pod  *v1.Pod
	dir  string
}

// many returns n volumes: ten per pod, or one per pod where it is one and the same PersistentVolume. They are staged.
func (c *trial) many(n int) []*oneOfMany {
	c.Helper()
	c.fatalIf(c.tryStage(c.ctx()), "prepare the device")
	var all []*oneOfMany
	for i := range n {
		v := &oneOfMany{c: c, spec: copySpec(c.spec), pod: c.pod.DeepCopy()}
		nthPod := i
		if c.spec.PersistentVolume == nil {
			nthPod = i / 10
			v.spec = named(c.spec, fmt.Sprintf("volume-%d", i))
		}
		v.pod.Name = fmt.Sprintf("pod-%d", nthPod)
		v.pod.UID = types.UID(fmt.Sprintf("5d9ea30c-6b4a-4a8d-9d1f-%012d", nthPod))
		for j := range v.pod.Spec.Volumes {
			if v.pod.Spec.Volumes[j].Name == c.spec.Name() {
				v.pod.Spec.Volumes[j].Name = v.spec.Name()
			}
		}
		all = append(all, v)
	}
	return all
}

func aHundredVolumesAtOnce(c *trial) {
	all := c.many(100)
	c.atOnce(all, func(v *oneOfMany) error { return v.setUp() })
	for i, v := range all {
		for _, other := range all[:i] {
			if !c.subject.InPlace && v.dir == other.dir {
				c.Fatalf("two volumes have the same path: %s", v.dir)
			}
		}
	}
	c.atOnce(all, func(v *oneOfMany) error { return v.tearDown() })
	c.fatalIf(c.tryUnstage(c.ctx()), "release the device")
	c.wantNothing()
}

// volumesComeAndGo has volumes of one pod removed, and with them perhaps directories that they share, while others are made.
func volumesComeAndGo(c *trial) {
	all := c.many(20)
	c.atOnce(all, func(v *oneOfMany) error {
		for range 5 {
			if err := errors.Join(v.setUp(), v.tearDown()); err != nil {
				return err
			}
		}
		return nil
	})
	c.fatalIf(c.tryUnstage(c.ctx()), "release the device")
	c.wantNothing()
}

// atOnce calls f for each volume in a goroutine of its own, and ends the test if one returns an error.
func (c *trial) atOnce(all []*oneOfMany, f func(*oneOfMany) error) {
	c.Helper()
	c.plugin()
	var working sync.WaitGroup
	errs := make([]error, len(all))
	c.fatalIf(c.call("one of many volumes", func() error {
		for i, v := range all {
			working.Go(func() { errs[i] = f(v) })
		}
		working.Wait()
		return summary(errs)
	}), "many volumes at once")
}

// summary returns the first of the errors, and says how many there are.
func summary(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) < 2 {
		return errors.Join(errs...)
	}
	return fmt.Errorf("%d errors, the first: %w", len(errs), errs[0])
}

// setUp does what trial.setUp does, but for one of many.
func (v *oneOfMany) setUp() error {
	mounter, err := v.c.instance.NewMounter(v.spec, v.pod)
	if err != nil {
		return err
	}
	if err := mounter.SetUp(v.c.ctx(), volume.SetUpOptions{}); err != nil {
		return err
	}
	v.dir = mounter.Path()
	presence, err := mounter.Presence(v.c.ctx())
	if presence != volume.Present {
		return fmt.Errorf("%s is %s after SetUp (%v)", v.dir, presence, err)
	}
	info, err := os.Stat(v.dir)
	if err != nil || !info.IsDir() || mounter.Attributes().ReadOnly {
		return err
	}
	return v.useFile(filepath.Join(v.dir, fmt.Sprintf("volumetest-%s-%s", v.pod.UID, v.spec.Name())))
}

// useFile writes a file and finds in it what it has written, rather than what another volume has.
func (v *oneOfMany) useFile(file string) error {
	// A child process that is being started has, for a moment, what is open here, and keeps the volume from being unmounted.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	written := v.c.data(file)
	if err := writeFile(file, written); err != nil {
		return err
	}
	read, err := os.ReadFile(file)
	if err == nil && !assert.ObjectsAreEqual(string(written), string(read)) {
		err = fmt.Errorf("%s holds %q", file, read)
	}
	if !ephemeral(v.c.subject) {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

func (v *oneOfMany) tearDown() error {
	unmounter, err := v.c.instance.NewUnmounter(v.spec.Name(), v.pod.UID)
	if err != nil {
		return err
	}
	if err := unmounter.TearDown(v.c.ctx(), v.c.tearDownOptions()); err != nil {
		return err
	}
	if v.c.subject.InPlace {
		return nil
	}
	mounter, err := v.c.instance.NewMounter(v.spec, v.pod)
	if err != nil {
		return err
	}
	presence, err := mounter.Presence(v.c.ctx())
	if presence != volume.Absent {
		return fmt.Errorf("%s is %s after TearDown (%v)", v.dir, presence, err)
	}
	return nil
}
