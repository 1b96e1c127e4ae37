// SPDX-License-Identifier: Apache-2.0

package volumetest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/mount-utils"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// newFake returns a plugin that has its host, and a Mounter and an Unmounter of one volume.
func newFake(t *testing.T, plugin *volumetest.FakePlugin) (volume.Mounter, volume.Unmounter) {
	t.Helper()
	host, err := volume.Host{Root: t.TempDir()}.Complete()
	require.NoError(t, err)
	require.NoError(t, plugin.Init(t.Context(), host))
	mounter, err := plugin.NewMounter(emptyDirSpec(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid"}})
	require.NoError(t, err)
	unmounter, err := plugin.NewUnmounter("scratch", "uid")
	require.NoError(t, err)
	return mounter, unmounter
}

func TestAFakePluginRecordsItsCalls(t *testing.T) {
	plugin := &volumetest.FakePlugin{}
	mounter, unmounter := newFake(t, plugin)
	require.NoError(t, mounter.SetUp(t.Context(), volume.SetUpOptions{}))
	_, err := mounter.Presence(t.Context())
	require.NoError(t, err)
	require.NoError(t, unmounter.TearDown(t.Context(), volume.TearDownOptions{}))

	var operations []volumetest.Operation
	for _, call := range plugin.Calls() {
		operations = append(operations, call.Op)
	}
	assert.Equal(t, []volumetest.Operation{
		volumetest.Init, volumetest.NewMounter, volumetest.NewUnmounter, volumetest.SetUp, volumetest.Presence, volumetest.TearDown,
	}, operations)
	assert.Equal(t, []volumetest.Call{{Op: volumetest.SetUp, Volume: "scratch", PodUID: "uid"}}, plugin.CallsOf(volumetest.SetUp))
}

func TestAFaultBeforeAnOperationKeepsItFromHappening(t *testing.T) {
	plugin := &volumetest.FakePlugin{}
	mounter, unmounter := newFake(t, plugin)
	cause := errors.New("injected")
	plugin.Inject(volumetest.SetUp, volumetest.Hooks{Before: volumetest.FailTimes(2, cause)})
	for range 2 {
		require.ErrorIs(t, mounter.SetUp(t.Context(), volume.SetUpOptions{}), cause)
		assert.NoDirExists(t, mounter.Path())
	}
	require.NoError(t, mounter.SetUp(t.Context(), volume.SetUpOptions{}))
	assert.DirExists(t, mounter.Path())

	plugin.Inject(volumetest.TearDown, volumetest.Hooks{Before: volumetest.Fail(cause)})
	require.ErrorIs(t, unmounter.TearDown(t.Context(), volume.TearDownOptions{}), cause)
	assert.DirExists(t, mounter.Path())
	plugin.Inject(volumetest.TearDown, volumetest.Hooks{})
	require.NoError(t, unmounter.TearDown(t.Context(), volume.TearDownOptions{}))
}

func TestAFaultAfterAnOperationLeavesItsEffect(t *testing.T) {
	plugin := &volumetest.FakePlugin{}
	mounter, unmounter := newFake(t, plugin)
	cause := errors.New("injected")
	plugin.Inject(volumetest.SetUp, volumetest.Hooks{After: volumetest.Fail(cause)})
	require.ErrorIs(t, mounter.SetUp(t.Context(), volume.SetUpOptions{}), cause)
	assert.DirExists(t, mounter.Path())
	plugin.Inject(volumetest.TearDown, volumetest.Hooks{After: volumetest.Fail(cause)})
	require.ErrorIs(t, unmounter.TearDown(t.Context(), volume.TearDownOptions{}), cause)
	assert.NoDirExists(t, mounter.Path())
}

func TestEveryOperationTakesFaults(t *testing.T) {
	plugin := &volumetest.FakePlugin{}
	mounter, unmounter := newFake(t, plugin)
	cause := errors.New("injected")
	for op, call := range map[volumetest.Operation]func() error{
		volumetest.Init:         func() error { return plugin.Init(t.Context(), volume.Host{}) },
		volumetest.NewMounter:   func() error { _, err := plugin.NewMounter(emptyDirSpec(), &v1.Pod{}); return err },
		volumetest.NewUnmounter: func() error { _, err := plugin.NewUnmounter("scratch", "uid"); return err },
		volumetest.SetUp:        func() error { return mounter.SetUp(t.Context(), volume.SetUpOptions{}) },
		volumetest.TearDown:     func() error { return unmounter.TearDown(t.Context(), volume.TearDownOptions{}) },
		volumetest.Presence: func() error {
			presence, err := mounter.Presence(t.Context())
			assert.Equal(t, volume.Unknown, presence)
			return err
		},
	} {
		plugin.Inject(op, volumetest.Hooks{Before: volumetest.Fail(cause)})
		assert.ErrorIs(t, call(), cause, op)
	}
}

func TestAnOperationHangsUntilItIsReleasedOrItsContextEnds(t *testing.T) {
	plugin := &volumetest.FakePlugin{}
	mounter, _ := newFake(t, plugin)
	release, ended := make(chan struct{}), make(chan error)
	plugin.Inject(volumetest.SetUp, volumetest.Hooks{Before: volumetest.Hang(release)})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { ended <- mounter.SetUp(ctx, volume.SetUpOptions{}) }()
	cause := errors.New("in a hurry")
	cancel(cause)
	err := <-ended
	require.ErrorIs(t, err, volume.ErrUncertain)
	require.ErrorIs(t, err, cause)

	go func() { ended <- mounter.SetUp(t.Context(), volume.SetUpOptions{}) }()
	close(release)
	require.NoError(t, <-ended)
}

func TestAFakePluginServesWhatItIsTold(t *testing.T) {
	sources := []volume.Source{{Type: volume.SourceCSI, Driver: "one"}, {Type: volume.SourceFlexVolume, Driver: "vendor/two"}}
	plugin := &volumetest.FakePlugin{
		PluginName: "example.com/fake",
		Serves:     sources,
		Supports:   func(spec *volume.Spec) bool { return spec.Name() == "data" },
	}
	assert.Equal(t, "example.com/fake", plugin.Name())
	assert.Equal(t, sources, plugin.Sources())
	assert.False(t, plugin.CanSupport(csiSpec("one")))
	name, err := plugin.VolumeName(csiSpec("one"))
	require.NoError(t, err)
	assert.Equal(t, "inline", name)
}

func TestAFakeProberAnswersInOrder(t *testing.T) {
	prober := make(volumetest.FakeProber, 3)
	plugin := &volumetest.FakePlugin{}
	cause := errors.New("injected")
	prober <- volumetest.Found(plugin)
	prober <- volumetest.Gone(plugin.Name())
	prober <- volumetest.ProbeAnswer{Err: cause}
	events, err := prober.Probe(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []volume.ProbeEvent{{Op: volume.ProbeAddOrUpdate, Name: plugin.Name(), Plugin: plugin}}, events)
	events, err = prober.Probe(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []volume.ProbeEvent{{Op: volume.ProbeRemove, Name: plugin.Name()}}, events)
	_, err = prober.Probe(t.Context())
	require.ErrorIs(t, err, cause)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = prober.Probe(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestAFaultyMounterFailsTheCallThatItIsTold(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	target := filepath.Join(dir, "target")
	require.NoError(t, os.Mkdir(target, 0o755))
	cause := errors.New("injected")
	second := func(call volumetest.MountCall) error {
		if call.N == 2 {
			return cause
		}
		return nil
	}
	mounts := func(mounter mount.Interface) int {
		points, err := mounter.List()
		require.NoError(t, err)
		return len(points)
	}
	for when, test := range map[string]struct {
		before, after volumetest.MountHook
		want          int
	}{
		"before its effect": {before: second, want: 1},
		"after its effect":  {after: second, want: 2},
	} {
		t.Run(when, func(t *testing.T) {
			mounter := volumetest.NewFaultyMounter(mount.NewFakeMounter(nil))
			mounter.Inject(test.before, test.after)
			require.NoError(t, mounter.Mount("tmpfs", target, "tmpfs", []string{"ro"}))
			require.ErrorIs(t, mounter.MountSensitive("tmpfs", target, "tmpfs", nil, []string{"password=1"}), cause)
			assert.Equal(t, test.want, mounts(mounter))
			require.NoError(t, mounter.MountSensitiveWithoutSystemd("tmpfs", target, "tmpfs", nil, nil))
			assert.Equal(t, volumetest.MountCall{N: 1, Source: "tmpfs", Target: target, FSType: "tmpfs", Options: []string{"ro"}}, mounter.Calls()[0])
			assert.Len(t, mounter.Calls(), 3)

			mounter.Inject(test.before, test.after)
			assert.Empty(t, mounter.Calls(), "the count begins anew")
			require.NoError(t, mounter.Unmount(target))
			require.ErrorIs(t, mounter.UnmountWithForce(target, time.Second), cause)
			assert.Equal(t, volumetest.MountCall{N: 2, Unmount: true, Target: target}, mounter.Calls()[1])
		})
	}
}
