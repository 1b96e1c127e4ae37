// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/mount-utils"

	"github.com/volumekit/volumekit/volume"
)

// fixture is a program with a root of its own, and one volume.
type fixture struct {
	*testing.T
	plugin *Plugin
	host   volume.Host
	pod    *v1.Pod
	spec   *volume.Spec
	path   string
}

func newFixture(t *testing.T, source v1.EmptyDirVolumeSource) *fixture {
	return newFixtureWith(t, source, newPod(asking("hugepages-2Mi")), nil)
}

// newFixtureWith mounts with mounter unless that is nil.
func newFixtureWith(t *testing.T, source v1.EmptyDirVolumeSource, pod *v1.Pod, mounter mount.Interface) *fixture {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	host, err := volume.Host{Root: filepath.Join(dir, "root"), Mounter: mounter}.Complete()
	require.NoError(t, err)
	f := &fixture{T: t, host: host, pod: pod, spec: newSpec(source)}
	f.path = host.PodVolumeDir(pod.UID, pluginName, f.spec.Name())
	f.restart(Options{})
	t.Cleanup(func() {
		if t.Failed() {
			detach(f.path, hiddenPath(f.path)) // or the directory cannot be removed
		}
	})
	return f
}

// restart starts the program again, with other options perhaps.
func (f *fixture) restart(options Options) {
	f.Helper()
	f.plugin = New(options)
	require.NoError(f, f.plugin.Init(f.Context(), f.host))
}

func (f *fixture) mounter() volume.Mounter {
	f.Helper()
	mounter, err := f.plugin.NewMounter(f.spec, f.pod)
	require.NoError(f, err)
	require.Equal(f, f.path, mounter.Path())
	return mounter
}

func (f *fixture) setUpWith(options volume.SetUpOptions) error {
	f.Helper()
	return f.mounter().SetUp(f.Context(), options)
}

func (f *fixture) trySetUp() error {
	f.Helper()
	return f.setUpWith(volume.SetUpOptions{})
}

func (f *fixture) setUp() {
	f.Helper()
	require.NoError(f, f.trySetUp())
}

func (f *fixture) tryTearDown() error {
	f.Helper()
	unmounter, err := f.plugin.NewUnmounter(f.spec.Name(), f.pod.UID)
	require.NoError(f, err)
	require.Equal(f, f.path, unmounter.Path())
	return unmounter.TearDown(f.Context(), volume.TearDownOptions{})
}

// tearDown takes the volume away and finds nothing left of it.
func (f *fixture) tearDown() {
	f.Helper()
	require.NoError(f, f.tryTearDown())
	f.wantAbsent(f.path)
	f.wantAbsent(hiddenPath(f.path))
}

func (f *fixture) wantAbsent(path string) {
	f.Helper()
	_, err := os.Lstat(path)
	require.ErrorIs(f, err, fs.ErrNotExist)
}

func (f *fixture) wantPresence(want volume.Presence) {
	f.Helper()
	presence, err := f.mounter().Presence(f.Context())
	require.Equal(f, want.String(), presence.String())
	assert.Equal(f, want == volume.Unknown, err != nil, "the error explains %s, and nothing else: %v", volume.Unknown, err)
}

// makeVolumeDir makes the directory of the volume, and those that lead to it, by hand.
func (f *fixture) makeVolumeDir() {
	f.Helper()
	require.NoError(f, os.MkdirAll(f.path, 0o750))
}

func (f *fixture) write(elem ...string) (file string) {
	f.Helper()
	file = filepath.Join(elem...)
	require.NoError(f, os.WriteFile(file, []byte("content"), 0o644))
	return file
}
