// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
)

// trial is the check of one rule: a program with a root of its own, one volume, and an instance of the plugin.
type trial struct {
	*testing.T
	config  *Config
	subject Case
	spec    *volume.Spec
	pod     *v1.Pod

	// dir is the trial's own directory, without symbolic links. The root is in it, absent at first.
	dir     string
	host    volume.Host
	mounter *FaultyMounter
	ears    *ears

	// instance is the plugin since the last restart, nil before the first.
	instance volume.VolumePlugin

	// written is what the check has put into the volume, see clean.
	written []string

	mountsBefore mountTable
	specBefore   *volume.Spec
	podBefore    *v1.Pod
}

func newTrial(t *testing.T, config *Config, subject Case) *trial {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	c := &trial{T: t, config: config, subject: subject, dir: dir, spec: copySpec(subject.Spec), ears: newEars(config.Canaries)}
	c.pod = podFor(subject)
	c.mountsBefore = readMounts(t)
	// A failed check must not fail the next one, and removing the directory must not reach what is mounted in it.
	t.Cleanup(func() { detachBelow(t, dir) })
	t.Cleanup(func() { c.ears.check(t) })
	c.specBefore, c.podBefore = copySpec(c.spec), c.pod.DeepCopy()
	c.useRoot(filepath.Join(dir, "root"))
	return c
}

// useRoot has the program work on another root.
func (c *trial) useRoot(root string) {
	c.Helper()
	host := c.config.Host(root)
	host.Root = root
	host, err := host.Complete()
	require.NoError(c, err, "Config.Host(%q)", root)
	c.mounter = NewFaultyMounter(host.Mounter)
	c.inject(nil, nil)
	host.Mounter = c.mounter
	host.Exec = &hearingExec{host.Exec, c.ears}
	c.host = host
	c.instance = nil
}

// inject has the hooks called for each call that changes mounts, and starts their count anew.
func (c *trial) inject(before, after MountHook) {
	c.mounter.Inject(func(call MountCall) error {
		c.ears.hearMount(call)
		if before == nil {
			return nil
		}
		return before(call)
	}, after)
}

// finish looks at what holds after every check.
func (c *trial) finish() {
	c.Helper()
	assert.Equal(c, c.specBefore, c.spec, "the plugin has changed the spec that it was given")
	assert.Equal(c, c.podBefore, c.pod, "the plugin has changed the pod that it was given")
	assert.Empty(c, c.mountsBefore.changes(readMounts(c), c.dir), "mounts that came (+) and went (-)")
}

// ctx is the context for calls: one with a logger that is listened to.
func (c *trial) ctx() context.Context { return c.ears.context(c.Context()) }

// restart lets the program be started again: the plugin is a new instance.
func (c *trial) restart() {
	c.Helper()
	plugin := c.config.New()
	c.fatalIf(c.call("Init", func() error { return plugin.Init(c.ctx(), c.host) }), "Init")
	c.instance = plugin
}

// plugin returns the instance in use.
func (c *trial) plugin() volume.VolumePlugin {
	c.Helper()
	if c.instance == nil {
		c.restart()
	}
	return c.instance
}

// call calls f, which calls the plugin. It ends the test if f panics or does not return.
func (c *trial) call(what string, f func() error) error {
	c.Helper()
	type result struct {
		err      error
		panicked string
	}
	returned := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r.panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
			returned <- r
		}()
		r.err = f()
	}()
	limit := time.NewTimer(c.config.CallLimit)
	defer limit.Stop()
	select {
	case r := <-returned:
		if r.panicked != "" {
			c.Fatalf("%s panicked: %s", what, r.panicked)
		}
		c.ears.hearError(r.err)
		return r.err
	case <-limit.C:
		c.Fatalf("%s did not return within %v", what, c.config.CallLimit)
		return nil
	}
}

// fatalIf ends the test on an error.
func (c *trial) fatalIf(err error, what string) {
	c.Helper()
	if err != nil {
		c.Fatalf("%s: %v", what, err)
	}
}

// wantKind fails the test unless the error matches one of the kinds.
func (c *trial) wantKind(err error, kinds ...error) {
	c.Helper()
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			return
		}
	}
	c.Errorf("the error has to match one of %q, with errors.Is: %v", kinds, err)
}

// newMounter returns a Mounter of the volume, from the instance in use.
func (c *trial) newMounter() volume.Mounter {
	c.Helper()
	mounter, err := c.mounterFor(c.spec, c.pod)
	c.fatalIf(err, "NewMounter")
	return mounter
}

func (c *trial) mounterFor(spec *volume.Spec, pod *v1.Pod) (mounter volume.Mounter, err error) {
	c.Helper()
	plugin := c.plugin()
	err = c.call("NewMounter", func() (err error) {
		mounter, err = plugin.NewMounter(spec, pod)
		return err
	})
	if err == nil && mounter == nil {
		c.Fatal("NewMounter returned neither a Mounter nor an error")
	}
	return mounter, err
}

// newUnmounter returns an Unmounter of the volume, from the instance in use.
func (c *trial) newUnmounter() volume.Unmounter {
	c.Helper()
	unmounter, err := c.unmounterFor(c.spec.Name(), c.pod.UID)
	c.fatalIf(err, "NewUnmounter")
	return unmounter
}

func (c *trial) unmounterFor(name string, uid types.UID) (unmounter volume.Unmounter, err error) {
	c.Helper()
	plugin := c.plugin()
	err = c.call("NewUnmounter", func() (err error) {
		unmounter, err = plugin.NewUnmounter(name, uid)
		return err
	})
	if err == nil && unmounter == nil {
		c.Fatal("NewUnmounter returned neither an Unmounter nor an error")
	}
	return unmounter, err
}

// found returns a Mounter of the volume, from the instance in use, that has looked for it, so that what it says of the
// volume is final.
func (c *trial) found() volume.Mounter {
	c.Helper()
	mounter := c.newMounter()
	_, _ = c.presenceOf(c.ctx(), mounter)
	return mounter
}

// path is where the volume is, which was set up.
func (c *trial) path() string {
	c.Helper()
	return c.found().Path()
}

// trySetUp sets the volume up as a program does: attached and mounted for the node first where that is needed. It ends the
// test if the error does not say the truth about the volume.
func (c *trial) trySetUp(ctx context.Context, options volume.SetUpOptions) error {
	c.Helper()
	if err := c.tryStage(ctx); err != nil {
		return err
	}
	mounter := c.newMounter()
	err := c.call("SetUp", func() error { return mounter.SetUp(ctx, options) })
	switch {
	case err == nil:
	case c.subject.InPlace || errors.Is(err, volume.ErrUncertain):
	case c.presence() == volume.Present:
		c.Fatalf("SetUp failed with an error that does not match ErrUncertain, but the volume is there: %v", err)
	}
	return err
}

// setUp sets the volume up and finds it present.
func (c *trial) setUp() {
	c.Helper()
	c.fatalIf(c.trySetUp(c.ctx(), volume.SetUpOptions{}), "SetUp")
	c.wantPresence(volume.Present, "after SetUp")
}

// tryTearDown takes the volume from the pod and, if that succeeds, from the node.
func (c *trial) tryTearDown(ctx context.Context) error {
	c.Helper()
	unmounter := c.newUnmounter()
	if err := c.call("TearDown", func() error { return unmounter.TearDown(ctx, c.tearDownOptions()) }); err != nil {
		return err
	}
	return c.tryUnstage(ctx)
}

// tearDownOptions has the warnings of TearDown listened to.
func (c *trial) tearDownOptions() volume.TearDownOptions {
	return volume.TearDownOptions{Warn: c.ears.hearWarning}
}

// tearDown takes the volume away and finds nothing left.
func (c *trial) tearDown() {
	c.Helper()
	c.clean()
	c.fatalIf(c.tryTearDown(c.ctx()), "TearDown")
	c.wantNothing()
}

// wantNothing ends the test if the volume, or anything but empty directories below the root, is there.
func (c *trial) wantNothing() {
	c.Helper()
	if !c.subject.InPlace {
		c.wantPresence(volume.Absent, "after TearDown")
	}
	if left := filesBelow(c, c.host.Root); len(left) > 0 {
		c.Fatalf("left below the root: %q", left)
	}
	if left := c.mounts(); len(left) > 0 {
		c.Fatalf("left mounted: %q", left.points())
	}
}

// presence asks for the volume's presence, and ends the test if the error does not go with the answer.
func (c *trial) presence() volume.Presence {
	c.Helper()
	presence, err := c.presenceWithin(c.ctx())
	switch {
	case presence == volume.Unknown && err == nil:
		c.Fatal("Presence is Unknown, and no error says why")
	case presence != volume.Unknown && err != nil:
		c.Fatalf("Presence is %s, but there is an error too: %v", presence, err)
	}
	return presence
}

func (c *trial) presenceWithin(ctx context.Context) (presence volume.Presence, err error) {
	c.Helper()
	return c.presenceOf(ctx, c.newMounter())
}

func (c *trial) presenceOf(ctx context.Context, mounter volume.Mounter) (presence volume.Presence, err error) {
	c.Helper()
	err = c.call("Presence", func() (err error) {
		presence, err = mounter.Presence(ctx)
		return err
	})
	return presence, err
}

func (c *trial) wantPresence(want volume.Presence, when string) {
	c.Helper()
	if presence := c.presence(); presence != want {
		c.Fatalf("the volume is %s %s, it should be %s", presence, when, want)
	}
}

// writable returns the volume, which was set up, as a directory that files can be written into; ok is false for others.
func (c *trial) writable() (dir string, ok bool) {
	c.Helper()
	mounter := c.found()
	info, err := os.Stat(mounter.Path())
	c.fatalIf(err, "the volume's path after SetUp")
	if !info.IsDir() || mounter.Attributes().ReadOnly {
		c.Log("not tested with files: the volume is read-only or no directory")
		return mounter.Path(), false
	}
	return mounter.Path(), true
}

// write writes a file into the volume.
func (c *trial) write(path string, data string) {
	c.Helper()
	c.written = append(c.written, path)
	c.fatalIf(writeFile(path, c.data(data)), "write into the volume")
}

// writeFile is os.WriteFile but that it leaves a file empty by writing nothing: hugetlbfs fails to write 0 bytes, too.
func writeFile(path string, data []byte) error {
	if len(data) > 0 {
		return os.WriteFile(path, data, 0o644)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// wantFile fails the test unless the file holds the data.
func (c *trial) wantFile(path string, data string) {
	c.Helper()
	got, err := os.ReadFile(path)
	c.fatalIf(err, "read from the volume")
	assert.Equal(c, string(c.data(data)), string(got), path)
}

// data is what a file of the volume can hold of it.
func (c *trial) data(data string) []byte {
	if c.subject.NoData {
		return nil
	}
	return []byte(data)
}

// makeDir makes a directory in the volume. Its parent exists.
func (c *trial) makeDir(path string) {
	c.Helper()
	c.written = append(c.written, path)
	c.fatalIf(os.Mkdir(path, 0o755), "make a directory in the volume")
}

// clean removes what the check has written into a volume that outlives it, if that is still there to be seen.
func (c *trial) clean() {
	if ephemeral(c.subject) {
		return
	}
	for _, path := range slices.Backward(c.written) {
		_ = os.Remove(path)
	}
}

// filesBelow lists what is below dir and is not a directory.
func filesBelow(t testing.TB, dir string) []string {
	t.Helper()
	var files []string
	// WalkDir would not follow a symbolic link.
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !entry.IsDir() {
			files = append(files, strings.TrimPrefix(path, dir))
		}
		return err
	})
	require.NoError(t, err)
	return files
}
