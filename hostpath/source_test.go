// SPDX-License-Identifier: Apache-2.0

package hostpath_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/volume"
)

func TestNewMounterRefusesBadSources(t *testing.T) {
	plugin := start(t, hostpath.Options{})
	for name, test := range map[string]struct {
		spec     *volume.Spec
		mentions string
	}{
		"an empty path":                      {inline("", v1.HostPathDirectory), "hostPath.path is empty"},
		"a relative path":                    {inline("data/x", ""), `"data/x" is not absolute`},
		"a path that goes up":                {inline("/data/../etc", ""), `"/data/../etc" has a ".." element`},
		"a path that ends above":             {inline("/data/..", v1.HostPathFile), `".." element`},
		"a path with a NUL":                  {inline("/data\x00/etc", ""), `"/data\x00/etc" holds a NUL byte`},
		"a type that Kubernetes has not":     {inline("/data", "Folder"), `hostPath.type "Folder"`},
		"a type in the wrong case":           {inline("/data", "directory"), `hostPath.type "directory"`},
		"a PersistentVolume that goes up":    {persistent("/data/../etc", ""), `".." element`},
		"a spec that is empty":               {&volume.Spec{}, "no hostPath"},
		"a PersistentVolume of another kind": {volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{}, false), "no hostPath"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := plugin.NewMounter(test.spec, nil)
			require.ErrorIs(t, err, volume.ErrInvalid)
			assert.ErrorContains(t, err, test.mentions)
		})
	}
}

func TestNewMounterAcceptsDotsInNames(t *testing.T) {
	plugin := start(t, hostpath.Options{})
	for _, path := range []string{"/", "/..data", "/a..b/c", "/a/./b/", "//a"} {
		mounter, err := plugin.NewMounter(inline(path, ""), nil)
		require.NoError(t, err, path)
		assert.Equal(t, path, mounter.Path(), "the path stands as it is written")
	}
}

func TestNewMounterRefusesWhatNeedsAMount(t *testing.T) {
	plugin := start(t, hostpath.Options{})
	block := v1.PersistentVolumeBlock
	for mentions, change := range map[string]func(*v1.PersistentVolume){
		"mountOptions": func(pv *v1.PersistentVolume) { pv.Spec.MountOptions = []string{"noexec"} },
		"volume.beta.kubernetes.io/mount-options": func(pv *v1.PersistentVolume) {
			pv.ObjectMeta = metav1.ObjectMeta{Annotations: map[string]string{v1.MountOptionAnnotation: "noexec"}}
		},
		"volumeMode Block": func(pv *v1.PersistentVolume) { pv.Spec.VolumeMode = &block },
	} {
		t.Run(mentions, func(t *testing.T) {
			spec := persistent("/data", "")
			change(spec.PersistentVolume)
			_, err := plugin.NewMounter(spec, nil)
			require.ErrorIs(t, err, volume.ErrNotSupported)
			assert.ErrorContains(t, err, mentions)
		})
	}
}

func TestCanSupportAsksForAHostPath(t *testing.T) {
	plugin := hostpath.New(hostpath.Options{})
	assert.True(t, plugin.CanSupport(inline("/data", "")))
	assert.True(t, plugin.CanSupport(persistent("/data", "")))
	assert.False(t, plugin.CanSupport(nil))
	assert.False(t, plugin.CanSupport(&volume.Spec{}))
	assert.False(t, plugin.CanSupport(volume.NewSpecFromVolume(&v1.Volume{VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}})))
}

func TestVolumeNameIsThePath(t *testing.T) {
	plugin := hostpath.New(hostpath.Options{})
	name, err := plugin.VolumeName(persistent("/data/x", ""))
	require.NoError(t, err)
	assert.Equal(t, "/data/x", name)
	_, err = plugin.VolumeName(&volume.Spec{})
	assert.ErrorIs(t, err, volume.ErrInvalid)
}

func TestTheVolumeIsReadOnlyWhenTheClaimSaysSo(t *testing.T) {
	plugin := start(t, hostpath.Options{})
	spec := persistent("/data", "")
	assert.Equal(t, volume.Attributes{}, mounterOf(t, plugin, spec).Attributes())
	spec.ReadOnly = true
	assert.Equal(t, volume.Attributes{ReadOnly: true}, mounterOf(t, plugin, spec).Attributes())
}

func TestTheUnmounterDoesNothing(t *testing.T) {
	plugin := start(t, hostpath.Options{})
	unmounter, err := plugin.NewUnmounter("host", "uid")
	require.NoError(t, err)
	assert.Empty(t, unmounter.Path())
	assert.NoError(t, unmounter.TearDown(t.Context(), volume.TearDownOptions{}))
}

func TestBadOptionsAreTheErrorOfInit(t *testing.T) {
	for name, test := range map[string]struct {
		options  hostpath.Options
		mentions string
	}{
		"an allowed path that is relative": {hostpath.Options{AllowedPaths: []hostpath.AllowedPath{{Prefix: "/a"}, {Prefix: "b"}}}, `AllowedPaths[1].Prefix "b" is not absolute`},
		"an allowed path that is empty":    {hostpath.Options{AllowedPaths: []hostpath.AllowedPath{{}}}, "AllowedPaths[0].Prefix is empty"},
		"an allowed path that goes up":     {hostpath.Options{AllowedPaths: []hostpath.AllowedPath{{Prefix: "/a/../b"}}}, `".." element`},
		"a base path that is relative":     {hostpath.Options{BasePaths: []string{"b"}}, `BasePaths[0] "b" is not absolute`},
		"a base path inside another":       {hostpath.Options{BasePaths: []string{"/a", "/b", "/a/c"}}, `"/a" and "/a/c" overlap`},
		"a base path twice":                {hostpath.Options{BasePaths: []string{"/a", "/a/"}}, "overlap"},
	} {
		t.Run(name, func(t *testing.T) {
			err := hostpath.New(test.options).Init(t.Context(), volume.Host{Root: t.TempDir()})
			require.ErrorIs(t, err, volume.ErrInvalid)
			assert.ErrorContains(t, err, test.mentions)
		})
	}
	siblings := hostpath.Options{BasePaths: []string{"/a", "/ab"}}
	assert.NoError(t, hostpath.New(siblings).Init(t.Context(), volume.Host{Root: t.TempDir()}))
}
