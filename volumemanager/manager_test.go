// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/mount-utils"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/plugins"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	"github.com/volumekit/volumekit/volumemanager"
)

func TestMain(m *testing.M) { os.Exit(volumetest.Main(m)) }

// rig is a root with a manager of it.
type rig struct {
	*volumemanager.Manager
	t       *testing.T
	root    string
	plugins *volume.VolumePluginMgr
}

func newRig(t *testing.T, plugins ...volume.VolumePlugin) *rig {
	return openRig(t, t.TempDir(), plugins...)
}

// openRig is a rig in a root that an earlier one may have left.
func openRig(t *testing.T, root string, plugins ...volume.VolumePlugin) *rig {
	t.Helper()
	return openRigWith(t, volumemanager.Options{}, volume.Host{Root: root}, plugins...)
}

// unmounted is a host that has no mounts, so that nothing waits for the kernel to tell of them: in a bubble of package synctest,
// time would not go on.
func unmounted(root string) volume.Host {
	return volume.Host{Root: root, Mounter: mount.NewFakeMounter(nil)}
}

func openRigWith(t *testing.T, options volumemanager.Options, host volume.Host, plugins ...volume.VolumePlugin) *rig {
	t.Helper()
	mgr, err := volume.NewVolumePluginMgr(t.Context(), host, plugins)
	require.NoError(t, err)
	t.Cleanup(mgr.Close)
	manager, err := volumemanager.New(t.Context(), mgr, options)
	require.NoError(t, err)
	b := &rig{Manager: manager, t: t, root: host.Root, plugins: mgr}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func (b *rig) inspect() []volumemanager.PodStatus {
	b.t.Helper()
	pods, err := volumemanager.Inspect(b.t.Context(), b.plugins, volumemanager.InspectOptions{})
	require.NoError(b.t, err)
	return pods
}

// recordPaths are where a pod's record may be: it is renamed when the pod leaves, and written anew before the renamed one goes.
func (b *rig) recordPaths(uid types.UID) []string {
	dir := b.plugins.Host().PodDir(uid)
	record := filepath.Join(dir, "volumekit.json")
	return []string{record, filepath.Join(dir, "volumekit.leaving.json"), record}
}

// recordPath is where the pod's record is.
func (b *rig) recordPath(uid types.UID) string {
	paths := b.recordPaths(uid)
	return paths[max(slices.IndexFunc(paths, fileExists), 0)]
}

func (b *rig) isRecorded(uid types.UID) bool {
	return slices.ContainsFunc(b.recordPaths(uid), fileExists)
}

func (b *rig) record(uid types.UID) string {
	b.t.Helper()
	data, err := os.ReadFile(b.recordPath(uid))
	require.NoError(b.t, err)
	return string(data)
}

// requireEmpty fails unless nothing is left in the root.
func (b *rig) requireEmpty() {
	b.t.Helper()
	entries, err := os.ReadDir(filepath.Join(b.root, "pods"))
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(b.t, err)
	}
	require.Empty(b.t, entries)
}

func pod(name string, volumes ...v1.Volume) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
	p.Spec.Volumes = volumes
	c := v1.Container{Name: "main", Env: []v1.EnvVar{{Name: "PASSWORD", Value: "canary"}}}
	for _, v := range volumes {
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
	}
	p.Spec.Containers = []v1.Container{c}
	return p
}

func emptyDir(name string) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}
}

func hostPath(name, path string) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path}}}
}

// image returns a volume of a source that no plugin of this module serves.
func image(name string) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "tools:1"}}}
}

func TestAPodGetsItsVolumesAndGivesThemBack(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	p := pod("web", emptyDir("cache"), hostPath("host", "/etc"))

	status, err := b.SetUpPod(t.Context(), p)
	require.NoError(t, err)
	cache := filepath.Join(b.root, "pods/uid-web/volumes/kubernetes.io~empty-dir/cache")
	require.Equal(t, []volumemanager.VolumeStatus{
		{Name: "cache", Plugin: "kubernetes.io/empty-dir", Path: cache, SELinuxRelabel: true, State: volumemanager.Mounted},
		{Name: "host", Plugin: "kubernetes.io/host-path", Path: "/etc", State: volumemanager.Mounted},
	}, status.Volumes)
	require.Equal(t, []volumemanager.ContainerStatus{{Name: "main", Mounts: []volumemanager.Mount{
		{Volume: "cache", Source: cache, Destination: "/cache", SELinuxRelabel: true, Propagation: v1.MountPropagationNone},
		{Volume: "host", Source: "/etc", Destination: "/host", Propagation: v1.MountPropagationNone},
	}}}, status.Containers)
	require.DirExists(t, cache)

	require.NoError(t, b.TearDownPod(t.Context(), p.UID))
	b.requireEmpty()
	require.NoError(t, b.TearDownPod(t.Context(), p.UID), "again")
}

func TestInspectTellsWhatSetUpPodTold(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	told, err := b.SetUpPod(t.Context(), pod("web", emptyDir("cache"), hostPath("host", "/etc")))
	require.NoError(t, err)
	assert.Equal(t, []volumemanager.PodStatus{told}, b.inspect())
}

func TestInspectMeasuresOnRequest(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	limited := emptyDir("cache")
	limited.EmptyDir.SizeLimit = ptr.To(resource.MustParse("1Mi"))
	status, err := b.SetUpPod(t.Context(), pod("web", limited))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(status.Volumes[0].Path, "file"), make([]byte, 100_000), 0o600))
	pods, err := volumemanager.Inspect(t.Context(), b.plugins, volumemanager.InspectOptions{Metrics: true})
	require.NoError(t, err)
	require.NoError(t, pods[0].Volumes[0].MetricsErr)
	assert.EqualValues(t, 1<<20, pods[0].Volumes[0].Metrics.Limit)
	assert.GreaterOrEqual(t, pods[0].Volumes[0].Metrics.Used, int64(100_000))
}

func TestASecondSetUpPodChangesNothing(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	p := pod("web", emptyDir("cache"))
	first, err := b.SetUpPod(t.Context(), p)
	require.NoError(t, err)
	file := filepath.Join(first.Volumes[0].Path, "file")
	require.NoError(t, os.WriteFile(file, []byte("kept"), 0o600))
	before := snapshot(t, b.root)

	second, err := b.SetUpPod(t.Context(), p)
	require.NoError(t, err)
	assert.Equal(t, first, second)
	assert.Equal(t, before, snapshot(t, b.root))
}

// snapshot lists everything below root with what a change would change.
func snapshot(t *testing.T, root string) []string {
	var all []string
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		all = append(all, fmt.Sprint(path, info.Mode(), info.Size(), info.ModTime().UnixNano()))
		return nil
	}))
	return all
}

func TestWhatCannotBeServedIsNamedAndTheRestIsServed(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	p := pod("web", emptyDir("cache"), image("tools"))
	p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: "cache", MountPath: "/both", MountPropagation: ptr.To(v1.MountPropagationBidirectional)})

	status, err := b.SetUpPod(t.Context(), p)
	require.ErrorIs(t, err, volume.ErrNotSupported)
	assert.ErrorContains(t, err, `set up volume "tools" of pod default/web: source image is not served here, since no plugin for it is registered`)
	assert.ErrorContains(t, err, `pod default/web: container "main": volume "cache" at /both: mountPropagation Bidirectional needs a privileged container`)
	assert.Equal(t, volumemanager.Mounted, status.Volumes[0].State)
	assert.Equal(t, volumemanager.Failed, status.Volumes[1].State)
	require.Len(t, status.Containers[0].Mounts, 1)
	assert.Equal(t, "/cache", status.Containers[0].Mounts[0].Destination)
	require.NoError(t, b.TearDownPod(t.Context(), p.UID))
	b.requireEmpty()
}

func TestAnAmbiguousPodIsRefusedBeforeAnythingIsTouched(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	p := pod("web", emptyDir("cache"), emptyDir("cache"))
	status, err := b.SetUpPod(t.Context(), p)
	require.ErrorIs(t, err, volume.ErrInvalid)
	assert.ErrorContains(t, err, `pod default/web: two volumes have the name "cache"`)
	assert.Equal(t, err, status.Err)
	b.requireEmpty()
}

func TestTheRecordIsThereBeforeThePluginIsAsked(t *testing.T) {
	fake := &volumetest.FakePlugin{}
	b := newRig(t, fake)
	asked := false
	fake.Inject(volumetest.SetUp, volumetest.Hooks{Before: func(context.Context, volumetest.Call) error {
		asked = true
		assert.Contains(t, b.record("uid-web"), `"plugin":"volumetest/fake","name":"cache"`)
		return nil
	}})
	fake.Inject(volumetest.TearDown, volumetest.Hooks{After: func(context.Context, volumetest.Call) error {
		assert.Contains(t, b.record("uid-web"), `"plugin":"volumetest/fake","name":"cache"`, "the record goes last")
		return nil
	}})
	_, err := b.SetUpPod(t.Context(), pod("web", emptyDir("cache")))
	require.NoError(t, err)
	require.True(t, asked)
	require.NoError(t, b.TearDownPod(t.Context(), "uid-web"))
	b.requireEmpty()
}

func TestNoRecordHoldsAnEnvironmentVariable(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	_, err := b.SetUpPod(t.Context(), pod("web", emptyDir("cache")))
	require.NoError(t, err)
	files := 0
	require.NoError(t, filepath.WalkDir(b.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		assert.NotContains(t, string(data), "canary", path)
		return err
	}))
	assert.Equal(t, 1, files, "the record")
}

func TestAVolumeThatFailsIsTriedAgainByTheNextCall(t *testing.T) {
	fake := &volumetest.FakePlugin{}
	b := newRig(t, fake)
	fake.Inject(volumetest.SetUp, volumetest.Hooks{Before: volumetest.FailTimes(1, errors.New("out of luck"))})
	p := pod("web", emptyDir("cache"))

	status, err := b.SetUpPod(t.Context(), p)
	require.ErrorContains(t, err, `set up volume "cache" of pod default/web (volumetest/fake at `)
	require.ErrorContains(t, err, "out of luck")
	require.Equal(t, volumemanager.Failed, status.Volumes[0].State)
	require.Equal(t, volumemanager.Failed, b.inspect()[0].Volumes[0].State)
	require.ErrorContains(t, b.inspect()[0].Volumes[0].Err, "out of luck", "the reason is kept")

	_, err = b.SetUpPod(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, volumemanager.Mounted, b.inspect()[0].Volumes[0].State)
}

func TestAPluginThatOnlySaysThatItSetUpIsNotBelieved(t *testing.T) {
	fake := &volumetest.FakePlugin{}
	b := newRig(t, fake)
	fake.Inject(volumetest.SetUp, volumetest.Hooks{After: func(_ context.Context, call volumetest.Call) error {
		return os.Remove(b.plugins.Host().PodVolumeDir(call.PodUID, fake.Name(), call.Volume))
	}})
	status, err := b.SetUpPod(t.Context(), pod("web", emptyDir("cache")))
	require.ErrorContains(t, err, "reported success, but the volume is not there")
	assert.Empty(t, status.Containers[0].Mounts)
}

func TestAVolumeIsNotHandedOutWhenItCannotBeToldWhetherItIsThere(t *testing.T) {
	fake := &volumetest.FakePlugin{}
	b := newRig(t, fake)
	fake.Inject(volumetest.Presence, volumetest.Hooks{Before: volumetest.Fail(errors.New("no answer"))})
	status, err := b.SetUpPod(t.Context(), pod("web", emptyDir("cache")))
	require.ErrorIs(t, err, volume.ErrUncertain)
	assert.Empty(t, status.Containers[0].Mounts)
	assert.Equal(t, volumemanager.Failed, b.inspect()[0].Volumes[0].State)
}

func TestTearingDownNeedsNothingButTheRoot(t *testing.T) {
	root := t.TempDir()
	b := openRig(t, root, plugins.Default()...)
	_, err := b.SetUpPod(t.Context(), pod("web", emptyDir("cache"), hostPath("host", "/etc")))
	require.NoError(t, err)
	require.NoError(t, b.Close())

	later := openRig(t, root, plugins.Default()...)
	uids, err := later.PodUIDs()
	require.NoError(t, err)
	require.Equal(t, []types.UID{"uid-web"}, uids)
	require.NoError(t, later.TearDownPod(t.Context(), uids[0]))
	later.requireEmpty()
}

func TestDamagedRecordsNeverBlockCleaningUp(t *testing.T) {
	for _, left := range []int64{0, 1, 20, 200} {
		t.Run(fmt.Sprintf("cut to %d bytes", left), func(t *testing.T) {
			b := newRig(t, plugins.Default()...)
			p := pod("web", emptyDir("cache"), hostPath("host", "/etc"))
			_, err := b.SetUpPod(t.Context(), p)
			require.NoError(t, err)
			require.NoError(t, os.Truncate(b.recordPath("uid-web"), left))

			uids, err := b.PodUIDs()
			require.NoError(t, err)
			assert.Equal(t, []types.UID{"uid-web"}, uids)
			status := b.inspect()[0]
			require.ErrorContains(t, status.Err, "can only be torn down")
			require.Len(t, status.Volumes, 1, "the one that has a directory")
			require.NoError(t, b.TearDownPod(t.Context(), p.UID))
			b.requireEmpty()
		})
	}
}

func TestSetUpPodReplacesADamagedRecord(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	p := pod("web", emptyDir("cache"), hostPath("host", "/etc"))
	status, err := b.SetUpPod(t.Context(), p)
	require.NoError(t, err)
	file := filepath.Join(status.Volumes[0].Path, "file")
	require.NoError(t, os.WriteFile(file, []byte("kept"), 0o600))
	whole := b.inspect()
	require.NoError(t, os.Truncate(b.recordPath("uid-web"), 5))
	_, err = b.SetUpPod(t.Context(), p)
	require.NoError(t, err)
	assert.Equal(t, whole, b.inspect())
	assert.FileExists(t, file)
}

func TestAPodThatWasNotSetUpHereIsLeftAlone(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	precious := filepath.Join(b.root, "pods/uid-kubelet/volumes/kubernetes.io~empty-dir/data/file")
	require.NoError(t, os.MkdirAll(filepath.Dir(precious), 0o750))
	require.NoError(t, os.WriteFile(precious, []byte("a running pod's"), 0o600))

	assert.Empty(t, b.inspect())
	uids, err := b.PodUIDs()
	require.NoError(t, err)
	assert.Empty(t, uids)
	require.NoError(t, b.TearDownPod(t.Context(), "uid-kubelet"))
	assert.FileExists(t, precious)
}

func TestVolumesWithoutARecordOfTheirOwnAreFoundByTheirDirectories(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	_, err := b.SetUpPod(t.Context(), pod("web", emptyDir("cache")))
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(b.plugins.Host().PodVolumeDir("uid-web", "kubernetes.io/empty-dir", "other"), 0o777))
	require.NoError(t, b.TearDownPod(t.Context(), "uid-web"))
	b.requireEmpty()
}

func TestAVolumeWhosePluginIsNotRegisteredIsLeftAlone(t *testing.T) {
	root := t.TempDir()
	b := openRig(t, root, &volumetest.FakePlugin{})
	status, err := b.SetUpPod(t.Context(), pod("web", emptyDir("cache")))
	require.NoError(t, err)
	file := filepath.Join(status.Volumes[0].Path, "file")
	require.NoError(t, os.WriteFile(file, []byte("precious"), 0o600))
	require.NoError(t, b.Close())

	later := openRig(t, root, plugins.Default()...)
	err = later.TearDownPod(t.Context(), "uid-web")
	require.ErrorIs(t, err, volume.ErrNotFound)
	assert.ErrorContains(t, err, `tear down volume "cache" of pod default/web (volumetest/fake): no plugin "volumetest/fake" is registered`)
	assert.FileExists(t, file)

	require.NoError(t, later.plugins.Register(t.Context(), &volumetest.FakePlugin{}))
	require.NoError(t, later.TearDownPod(t.Context(), "uid-web"))
	later.requireEmpty()
}

func TestAVolumeThatWasBeingTornDownIsEmptyWhenItIsSetUpAgain(t *testing.T) {
	fake := &volumetest.FakePlugin{}
	b := newRig(t, fake)
	p := pod("web", emptyDir("cache"))
	status, err := b.SetUpPod(t.Context(), p)
	require.NoError(t, err)
	old := filepath.Join(status.Volumes[0].Path, "old")
	require.NoError(t, os.WriteFile(old, nil, 0o600))
	fake.Inject(volumetest.TearDown, volumetest.Hooks{Before: volumetest.FailTimes(1, errors.New("interrupted"))})
	require.Error(t, b.TearDownPod(t.Context(), p.UID))
	require.Equal(t, volumemanager.Pending, b.inspect()[0].Volumes[0].State)

	_, err = b.SetUpPod(t.Context(), p)
	require.NoError(t, err)
	assert.NoFileExists(t, old)
	assert.Equal(t, volumemanager.Mounted, b.inspect()[0].Volumes[0].State)
}

func TestAVolumeIsNotTurnedIntoAnotherUnderAPod(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	_, err := b.SetUpPod(t.Context(), pod("web", emptyDir("cache"), emptyDir("logs")))
	require.NoError(t, err)

	changed := emptyDir("cache")
	changed.EmptyDir.SizeLimit = ptr.To(resource.MustParse("1Mi"))
	_, err = b.SetUpPod(t.Context(), pod("web", changed, emptyDir("logs")))
	require.ErrorIs(t, err, volume.ErrInUse, "another spec")
	assert.ErrorContains(t, err, `"cache"`)

	_, err = b.SetUpPod(t.Context(), pod("web", hostPath("cache", "/etc"), emptyDir("logs")))
	require.ErrorIs(t, err, volume.ErrInUse, "another plugin")

	_, err = b.SetUpPod(t.Context(), pod("web", emptyDir("cache")))
	require.ErrorIs(t, err, volume.ErrInUse, "a volume that is gone from the pod")
	assert.ErrorContains(t, err, `"logs"`)

	_, err = b.SetUpPod(t.Context(), pod("web", emptyDir("cache"), emptyDir("logs")))
	require.NoError(t, err, "the old pod is as good as before")
}

func TestTwoPodsNeverShareAUID(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	_, err := b.SetUpPod(t.Context(), pod("web", emptyDir("cache")))
	require.NoError(t, err)
	other := pod("other", emptyDir("cache"))
	other.UID = "uid-web"
	_, err = b.SetUpPod(t.Context(), other)
	require.ErrorIs(t, err, volume.ErrInvalid)
	assert.ErrorContains(t, err, "default/web")
}

func TestThereIsOneManagerOfARoot(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	_, err := volumemanager.New(t.Context(), b.plugins, volumemanager.Options{})
	require.ErrorIs(t, err, volume.ErrInUse)
	assert.ErrorContains(t, err, b.root)

	ctx, cancel := context.WithCancel(t.Context())
	opened := make(chan error)
	go func() {
		second, err := volumemanager.New(ctx, b.plugins, volumemanager.Options{WaitForRoot: true})
		if err == nil {
			err = second.Close()
		}
		opened <- err
	}()
	require.NoError(t, b.Close())
	require.NoError(t, <-opened)
	cancel()
}

func TestWaitingForTheRootEndsWithTheContext(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := volumemanager.New(ctx, b.plugins, volumemanager.Options{WaitForRoot: true})
	require.ErrorIs(t, err, volume.ErrInUse)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, b.Close(), "lets the goroutine that waits end")
}

func TestAVolumeThatHangsDelaysOnlyItself(t *testing.T) {
	fake := &volumetest.FakePlugin{}
	release := make(chan struct{})
	hanging := make(chan struct{}, 1)
	fake.Inject(volumetest.SetUp, volumetest.Hooks{Before: func(_ context.Context, call volumetest.Call) error {
		if call.Volume == "hung" {
			hanging <- struct{}{}
			<-release // whatever the context says
		}
		return nil
	}})
	b := newRig(t, fake)
	events := b.Events(t.Context(), 100)
	ctx, cancel := context.WithCancel(t.Context())
	type result struct {
		status volumemanager.PodStatus
		err    error
	}
	ended := make(chan result)
	go func() {
		status, err := b.SetUpPod(ctx, pod("stuck", emptyDir("hung"), emptyDir("fine")))
		ended <- result{status, err}
	}()
	<-hanging
	next(t, events, func(e volumemanager.Event) bool {
		return e.Volume == "fine" && e.Operation == volumemanager.OperationSetUp
	})
	_, err := b.SetUpPod(t.Context(), pod("other", emptyDir("fine")))
	require.NoError(t, err, "another pod is ready meanwhile")
	cancel()
	r := <-ended
	require.ErrorIs(t, r.err, volume.ErrUncertain)
	assert.Equal(t, volumemanager.Pending, r.status.Volumes[0].State)
	assert.Equal(t, volumemanager.Mounted, r.status.Volumes[1].State, "the pod's other volume is there")

	inAMoment, cancelLater := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancelLater()
	err = b.TearDownPod(inAMoment, "uid-stuck")
	require.ErrorIs(t, err, volume.ErrUncertain, "the plugin is never in two calls for one volume")
	close(release)
	require.NoError(t, b.TearDownPod(t.Context(), "uid-stuck"))
	require.NoError(t, b.TearDownPod(t.Context(), "uid-other"))
	b.requireEmpty()
}

func TestWarningsOfAPluginReachTheCaller(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	p := pod("web", hostPath("host", "/etc"))
	p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To(int64(1234))}
	status, err := b.SetUpPod(t.Context(), p)
	require.NoError(t, err)
	require.Len(t, status.Volumes[0].Warnings, 1)
	assert.Contains(t, status.Volumes[0].Warnings[0], "fsGroup")
}

func TestAHundredPodsComeAndGoAtOnce(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	var running sync.WaitGroup
	for i := range 100 {
		running.Go(func() {
			p := pod(fmt.Sprintf("web-%d", i), emptyDir("cache"), emptyDir("logs"), hostPath("host", "/etc"))
			for range 3 {
				status, err := b.SetUpPod(t.Context(), p)
				if !assert.NoError(t, err) {
					return
				}
				assert.DirExists(t, status.Volumes[1].Path)
				assert.NoError(t, b.TearDownPod(t.Context(), p.UID))
			}
		})
	}
	running.Wait()
	b.requireEmpty()
}

func TestOnePodSetUpAndTornDownByManyEndsInOneOfTheTwo(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	p := pod("web", emptyDir("cache"), emptyDir("logs"))
	var running sync.WaitGroup
	for range 20 {
		running.Go(func() {
			_, err := b.SetUpPod(t.Context(), p)
			assert.NoError(t, err)
		})
		running.Go(func() { assert.NoError(t, b.TearDownPod(t.Context(), p.UID)) })
	}
	running.Wait()
	for _, left := range b.inspect() {
		for _, v := range left.Volumes {
			assert.Equal(t, volumemanager.Mounted, v.State)
		}
	}
	require.NoError(t, b.TearDownPod(t.Context(), p.UID))
	b.requireEmpty()
}

func TestWhatSomebodyElseKeepsInThePodsDirectoryIsLeftAlone(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	_, err := b.SetUpPod(t.Context(), pod("web", emptyDir("cache")))
	require.NoError(t, err)
	theirs := filepath.Join(b.root, "pods/uid-web/etc-hosts")
	require.NoError(t, os.WriteFile(theirs, nil, 0o600))
	require.NoError(t, b.TearDownPod(t.Context(), "uid-web"))
	assert.FileExists(t, theirs)
	require.NoError(t, os.Remove(theirs))
	require.NoError(t, b.TearDownPod(t.Context(), "uid-web"))
	b.requireEmpty()
}

func TestTheRootMayBeASymbolicLink(t *testing.T) {
	root := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(t.TempDir(), root))
	b := openRig(t, root, plugins.Default()...)
	_, err := b.SetUpPod(t.Context(), pod("web", emptyDir("cache")))
	require.NoError(t, err)
	require.Equal(t, volumemanager.Mounted, b.inspect()[0].Volumes[0].State)
	require.NoError(t, b.TearDownPod(t.Context(), "uid-web"))
	b.requireEmpty()
}

func TestARootThatDoesNotExistHoldsNoPods(t *testing.T) {
	mgr, err := volume.NewVolumePluginMgr(t.Context(), volume.Host{Root: filepath.Join(t.TempDir(), "absent")}, plugins.Default())
	require.NoError(t, err)
	defer mgr.Close()
	pods, err := volumemanager.Inspect(t.Context(), mgr, volumemanager.InspectOptions{})
	require.NoError(t, err)
	assert.Empty(t, pods)
	assert.NoDirExists(t, mgr.Host().Root)
}

func TestACallWhoseContextHasEndedBeginsNothing(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	status, err := b.SetUpPod(ctx, pod("web", emptyDir("cache"), image("tools")))
	require.ErrorContains(t, err, "interrupted")
	assert.Equal(t, volumemanager.Pending, status.Volumes[0].State)
	assert.ErrorContains(t, status.Volumes[0].Err, "not begun: interrupted")
	require.ErrorContains(t, b.TearDownPod(ctx, "uid-web"), "interrupted")
	b.requireEmpty()
}

func TestWhatIsNilOrClosedIsRefused(t *testing.T) {
	_, err := volumemanager.New(t.Context(), nil, volumemanager.Options{})
	require.ErrorIs(t, err, volume.ErrInvalid)
	b := newRig(t, plugins.Default()...)
	_, err = b.SetUpPod(t.Context(), nil)
	require.ErrorIs(t, err, volume.ErrInvalid)
	require.ErrorIs(t, b.plugins.Register(t.Context(), nil), volume.ErrInvalid)

	require.NoError(t, b.Close())
	require.NoError(t, b.Close(), "again")
	_, err = b.SetUpPod(t.Context(), pod("web", emptyDir("cache")))
	require.ErrorIs(t, err, volume.ErrInvalid)
	require.ErrorIs(t, b.TearDownPod(t.Context(), "uid-web"), volume.ErrInvalid)
	b.requireEmpty()
}

func fileExists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
