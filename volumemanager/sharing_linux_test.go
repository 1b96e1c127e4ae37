// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/plugins"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	"github.com/volumekit/volumekit/volumemanager"
)

// sharedPlugin serves PersistentVolumes of type local as the directories that they name, as hostPath does, but their files are to
// belong to the pod's fsGroup, and they can be mounted with an SELinux label.
type sharedPlugin struct {
	*volumetest.FakePlugin
	labels []string // that volumes were set up with
}

func newSharedPlugin() *sharedPlugin {
	return &sharedPlugin{FakePlugin: &volumetest.FakePlugin{PluginName: "test/shared", Serves: []volume.Source{{Type: volume.SourceLocal}}}}
}

func (p *sharedPlugin) VolumeName(spec *volume.Spec) (string, error) {
	return spec.PersistentVolume.Spec.Local.Path, nil
}

func (p *sharedPlugin) SupportsSELinuxMount(*volume.Spec) (bool, error) { return true, nil }

func (p *sharedPlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	m, err := p.FakePlugin.NewMounter(spec, pod)
	return &sharedMounter{Mounter: m, plugin: p, path: spec.PersistentVolume.Spec.Local.Path}, err
}

type sharedMounter struct {
	volume.Mounter
	plugin *sharedPlugin
	path   string
}

func (m *sharedMounter) Path() string { return m.path }

func (m *sharedMounter) Attributes() volume.Attributes {
	return volume.Attributes{FSGroupWalk: true, SELinuxRelabel: true}
}

func (m *sharedMounter) SetUp(ctx context.Context, options volume.SetUpOptions) error {
	m.plugin.labels = append(m.plugin.labels, options.SELinuxLabel)
	return m.Mounter.SetUp(ctx, options)
}

func withFSGroup(p *v1.Pod, group int64) *v1.Pod {
	p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To(group)}
	return p
}

func TestTwoPodsWithDifferentFSGroupsCannotHaveAVolumeAtOnce(t *testing.T) {
	dir := t.TempDir()
	source := newClaims(claimNamed("data", "pv-1"), localVolume("pv-1", dir))
	group := int64(os.Getgid()) // which anybody may give files to
	b := openRigWith(t, volumemanager.Options{}, volume.Host{Root: t.TempDir(), Claims: source}, newSharedPlugin())
	events := b.Events(t.Context(), 1000)
	b.run()
	require.NoError(t, b.SetPod(t.Context(), withFSGroup(pod("first", claim("data", "data")), group)))
	b.requireReady("uid-first")
	require.NoError(t, b.SetPod(t.Context(), withFSGroup(pod("same", claim("data", "data")), group)))
	b.requireReady("uid-same")
	require.NoError(t, b.SetPod(t.Context(), pod("none", claim("data", "data"))))
	b.requireReady("uid-none")

	require.NoError(t, b.SetPod(t.Context(), withFSGroup(pod("other", claim("data", "data")), group+1)))
	kept := next(t, events, hasFailed("data", volumemanager.OperationSetUp))
	require.ErrorIs(t, kept.Err, volume.ErrInUse)
	assert.ErrorContains(t, kept.Err, fmt.Sprintf("its files belong to that pod's fsGroup %d, not to %d", group, group+1))

	require.NoError(t, b.RemovePod("uid-first"))
	next(t, events, isRemoved("uid-first"))
	require.NoError(t, b.RemovePod("uid-same"))
	next(t, events, isRemoved("uid-same"))
	if os.Getuid() == 0 {
		b.requireReady("uid-other") // at once
	}
}

func TestAPodThatWasLeftBehindKeepsItsFSGroup(t *testing.T) {
	dir, root := t.TempDir(), t.TempDir()
	source := newClaims(claimNamed("data", "pv-1"), localVolume("pv-1", dir))
	host := volume.Host{Root: root, Claims: source}
	group := int64(os.Getgid())
	first := openRigWith(t, volumemanager.Options{}, host, newSharedPlugin())
	_, err := first.SetUpPod(t.Context(), withFSGroup(pod("left", claim("data", "data")), group))
	require.NoError(t, err)
	require.NoError(t, first.Close())

	second := openRigWith(t, volumemanager.Options{}, host, newSharedPlugin())
	require.NoError(t, second.Recover(t.Context()))
	_, err = second.SetUpPod(t.Context(), withFSGroup(pod("new", claim("data", "data")), group+1))
	require.ErrorIs(t, err, volume.ErrInUse)
	assert.ErrorContains(t, err, "pod default/left uses it")
}

func TestTheFilesOfAVolumeAreGivenToThePodsFSGroup(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("not root: files can be given to one's own groups only")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "below", "file")
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	source := newClaims(claimNamed("data", "pv-1"), localVolume("pv-1", dir))
	b := openRigWith(t, volumemanager.Options{}, volume.Host{Root: t.TempDir(), Claims: source}, newSharedPlugin())

	readOnly := claim("data", "data")
	readOnly.PersistentVolumeClaim.ReadOnly = true
	_, err := b.SetUpPod(t.Context(), withFSGroup(pod("reader", readOnly), 5000))
	require.NoError(t, err)
	assert.Equal(t, uint32(0), groupOf(t, file), "the pod cannot write")
	require.NoError(t, b.TearDownPod(t.Context(), "uid-reader"))

	p := withFSGroup(pod("db", claim("data", "data")), 5000)
	_, err = b.SetUpPod(t.Context(), p)
	require.NoError(t, err)
	assert.Equal(t, uint32(5000), groupOf(t, file))
	assert.Equal(t, uint32(5000), groupOf(t, dir))

	p.Spec.SecurityContext.FSGroupChangePolicy = ptr.To(v1.FSGroupChangeOnRootMismatch)
	require.NoError(t, os.Chown(file, 0, 0))
	_, err = b.SetUpPod(t.Context(), p)
	require.NoError(t, err)
	assert.Equal(t, uint32(0), groupOf(t, file), "the root matches")
	p.Spec.SecurityContext.FSGroupChangePolicy = nil
	_, err = b.SetUpPod(t.Context(), p)
	require.NoError(t, err)
	assert.Equal(t, uint32(5000), groupOf(t, file))
}

func groupOf(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Lstat(path)
	require.NoError(t, err)
	return info.Sys().(*syscall.Stat_t).Gid
}

// labels is an SELinux that has a label for each type.
type labels struct{}

func (labels) Enabled() bool { return true }

func (labels) FileLabel(options *v1.SELinuxOptions) (string, error) {
	if options.Type == "bad" {
		return "", errors.New("no such type")
	}
	return "system_u:object_r:" + options.Type + ":" + options.Level, nil
}

func withLevel(p *v1.Pod, level string) *v1.Pod {
	p.Spec.SecurityContext = &v1.PodSecurityContext{SELinuxOptions: &v1.SELinuxOptions{Type: "container_file_t", Level: level}}
	return p
}

func TestSELinuxLabelsAreDecidedAsInKubernetes(t *testing.T) {
	label := "system_u:object_r:container_file_t:s0:c1,c2"
	for name, test := range map[string]struct {
		change  func(*v1.Pod)
		label   string // that the volume is mounted with
		relabel bool
		says    string
	}{
		"the pod's options":        {func(*v1.Pod) {}, label, false, ""},
		"a policy of recursion":    {func(p *v1.Pod) { p.Spec.SecurityContext.SELinuxChangePolicy = ptr.To(v1.SELinuxChangePolicyRecursive) }, "", true, ""},
		"no options":               {func(p *v1.Pod) { p.Spec.SecurityContext = nil }, "", true, ""},
		"options of the container": {func(p *v1.Pod) { p.Spec.Containers[0].SecurityContext = level("s0:c3") }, "system_u:object_r:t:s0:c3", false, ""},
		"a container that does not mount it": {func(p *v1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "other", SecurityContext: level("s0:c3")})
		}, label, false, ""},
		"containers that differ": {func(p *v1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "other", SecurityContext: level("s0:c3"), VolumeMounts: p.Spec.Containers[0].VolumeMounts})
		}, "", false, `containers "main" and "other" use it with different SELinux labels`},
		"options that there are not": {func(p *v1.Pod) { p.Spec.SecurityContext.SELinuxOptions.Type = "bad" }, "", false, `seLinuxOptions of container "main": no such type`},
	} {
		t.Run(name, func(t *testing.T) {
			source := newClaims(claimNamed("data", "pv-1"), localVolume("pv-1", t.TempDir()))
			plugin := newSharedPlugin()
			b := openRigWith(t, volumemanager.Options{SELinux: labels{}}, volume.Host{Root: t.TempDir(), Claims: source}, plugin)
			p := withLevel(pod("web", claim("data", "data")), "s0:c1,c2")
			test.change(p)
			status, err := b.SetUpPod(t.Context(), p)
			if test.says != "" {
				require.ErrorIs(t, err, volume.ErrInvalid)
				require.ErrorContains(t, err, test.says)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, []string{test.label}, plugin.labels)
			assert.Equal(t, test.relabel, status.Containers[0].Mounts[0].SELinuxRelabel)
		})
	}
}

func level(level string) *v1.SecurityContext {
	return &v1.SecurityContext{SELinuxOptions: &v1.SELinuxOptions{Type: "t", Level: level}}
}

func TestTwoPodsWithDifferentSELinuxLabelsCannotHaveAMountAtOnce(t *testing.T) {
	source := newClaims(claimNamed("data", "pv-1"), localVolume("pv-1", t.TempDir()))
	b := openRigWith(t, volumemanager.Options{SELinux: labels{}}, volume.Host{Root: t.TempDir(), Claims: source}, newSharedPlugin())
	_, err := b.SetUpPod(t.Context(), withLevel(pod("first", claim("data", "data")), "s0:c1"))
	require.NoError(t, err)
	_, err = b.SetUpPod(t.Context(), withLevel(pod("second", claim("data", "data")), "s0:c2"))
	require.ErrorIs(t, err, volume.ErrInUse)
	assert.ErrorContains(t, err, `pod default/first uses it, mounted with the SELinux label "system_u:object_r:container_file_t:s0:c1"`)
	_, err = b.SetUpPod(t.Context(), withLevel(pod("third", claim("data", "data")), "s0:c1"))
	require.NoError(t, err)
}

func TestHostPathVolumesAreNotRelabelled(t *testing.T) {
	b := openRigWith(t, volumemanager.Options{SELinux: labels{}}, volume.Host{Root: t.TempDir()}, plugins.Default()...)
	status, err := b.SetUpPod(t.Context(), pod("web", emptyDir("cache"), hostPath("host", filepath.Dir(t.TempDir()))))
	require.NoError(t, err)
	assert.True(t, status.Volumes[0].SELinuxRelabel)
	assert.False(t, status.Volumes[1].SELinuxRelabel)
}
