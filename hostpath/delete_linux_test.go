// SPDX-License-Identifier: Apache-2.0

package hostpath_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
)

func TestDeleteRemovesTheDirectoryAndItsTraces(t *testing.T) {
	f := newFixture(t, map[string]string{"pathPattern": "${.PVC.namespace}/${.PVC.name}"})
	pv := f.mustProvision(t, claim("data"))
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "file"), nil, 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(pv.Spec.HostPath.Path, "a", "b"), 0o700))
	require.NoError(t, os.Symlink(outside, filepath.Join(pv.Spec.HostPath.Path, "a", "link")))
	require.NoError(t, f.delete(t, pv))
	f.wantEmpty(t)
	assert.DirExists(t, f.base, "the base path stays")
	assert.FileExists(t, filepath.Join(outside, "file"), "links are not followed")
	assert.NoError(t, f.delete(t, pv), "it can be repeated")
}

func TestDeleteKeepsNeighboursAndTheirParents(t *testing.T) {
	f := newFixture(t, map[string]string{"pathPattern": "a/b/${.PVC.name}"})
	first, second := f.mustProvision(t, claim("first")), f.mustProvision(t, claim("second"))
	require.NoError(t, f.delete(t, first))
	assert.DirExists(t, second.Spec.HostPath.Path)
	require.NoError(t, f.delete(t, second))
	f.wantEmpty(t)
}

func TestDeleteKeepsEmptyParentsThatSomebodyElseMade(t *testing.T) {
	f := newFixture(t, map[string]string{"pathPattern": "private/${.PVC.name}"})
	private := filepath.Join(f.base, "private")
	require.NoError(t, os.MkdirAll(private, 0o755))
	require.NoError(t, os.Chmod(private, 0o700))
	pv := f.mustProvision(t, claim("data"))
	require.NoError(t, f.delete(t, pv))
	assert.Equal(t, []string{"private"}, below(t, f.base))
}

func TestDeleteRefusesWhatItDidNotProvision(t *testing.T) {
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "precious"), nil, 0o600))
	for name, test := range map[string]struct {
		change   func(t *testing.T, f fixture, pv *v1.PersistentVolume)
		mentions string
	}{
		"no annotation": {func(_ *testing.T, _ fixture, pv *v1.PersistentVolume) {
			pv.Annotations = nil
		}, "no annotation pv.kubernetes.io/provisioned-by"},
		"another provisioner's annotation": {func(_ *testing.T, _ fixture, pv *v1.PersistentVolume) {
			pv.Annotations["pv.kubernetes.io/provisioned-by"] = "rancher.io/local-path"
		}, `provisioned by "rancher.io/local-path"`},
		"no hostPath": {func(_ *testing.T, _ fixture, pv *v1.PersistentVolume) {
			pv.Spec.HostPath = nil
		}, "no hostPath"},
		"a path outside the base path": {func(_ *testing.T, _ fixture, pv *v1.PersistentVolume) {
			pv.Spec.HostPath.Path = outside
		}, "not below a base path"},
		"a path beside the base path": {func(_ *testing.T, f fixture, pv *v1.PersistentVolume) {
			pv.Spec.HostPath.Path = f.base + "-2/pvc-data"
		}, "not below a base path"},
		"a path that goes up": {func(_ *testing.T, f fixture, pv *v1.PersistentVolume) {
			pv.Spec.HostPath.Path = f.base + "/../x"
		}, `".." element`},
		"the base path": {func(_ *testing.T, f fixture, pv *v1.PersistentVolume) {
			pv.Spec.HostPath.Path = f.base + "/"
		}, "not below a base path"},
		"the records": {func(_ *testing.T, f fixture, pv *v1.PersistentVolume) {
			pv.Spec.HostPath.Path = f.base + "/.volumekit-hostpath/volumes"
		}, "reserved"},
		"the directory of another volume": {func(t *testing.T, f fixture, pv *v1.PersistentVolume) {
			pv.Spec.HostPath.Path = f.mustProvision(t, claim("other")).Spec.HostPath.Path
		}, "belongs to PersistentVolume pvc-other"},
		"a path where nothing is": {func(_ *testing.T, f fixture, pv *v1.PersistentVolume) {
			pv.Spec.HostPath.Path = f.base + "/nothing"
		}, "but it was provisioned at"},
		"a directory inside that of the volume": {func(t *testing.T, _ fixture, pv *v1.PersistentVolume) {
			pv.Spec.HostPath.Path += "/sub"
			require.NoError(t, os.Mkdir(pv.Spec.HostPath.Path, 0o700))
		}, "lies inside"},
		"a directory that somebody else made": {func(t *testing.T, f fixture, pv *v1.PersistentVolume) {
			pv.Spec.HostPath.Path = f.base + "/by-hand"
			require.NoError(t, os.Mkdir(pv.Spec.HostPath.Path, 0o700))
		}, "but it was provisioned at"},
		"another volume at a directory that somebody else made": {func(t *testing.T, f fixture, pv *v1.PersistentVolume) {
			pv.Name, pv.Spec.HostPath.Path = "pvc-other", f.base+"/by-hand"
			require.NoError(t, os.Mkdir(pv.Spec.HostPath.Path, 0o700))
		}, "was not provisioned"},
		"another volume at the directory": {func(_ *testing.T, _ fixture, pv *v1.PersistentVolume) {
			pv.Name = "pvc-other"
		}, "belongs to PersistentVolume pvc-data"},
		"a link out of the base path": {func(t *testing.T, _ fixture, pv *v1.PersistentVolume) {
			require.NoError(t, os.RemoveAll(pv.Spec.HostPath.Path))
			require.NoError(t, os.Symlink(outside, pv.Spec.HostPath.Path))
		}, "is a symbolic link"},
		"through a link out of the base path": {func(t *testing.T, f fixture, pv *v1.PersistentVolume) {
			require.NoError(t, os.Symlink(outside, f.base+"/link"))
			require.NoError(t, os.Mkdir(outside+"/sub", 0o700))
			t.Cleanup(func() { _ = os.Remove(outside + "/sub") })
			pv.Spec.HostPath.Path = f.base + "/link/sub"
		}, "is a symbolic link"},
		"the affinity of another node": {func(_ *testing.T, _ fixture, pv *v1.PersistentVolume) {
			pv.Spec.NodeAffinity = onNode("node-2")
		}, "node affinity"},
		"a name that is a path": {func(_ *testing.T, _ fixture, pv *v1.PersistentVolume) {
			pv.Name = "../pvc-data"
		}, "volume name"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			pv := f.mustProvision(t, claim("data"))
			require.NoError(t, os.WriteFile(filepath.Join(pv.Spec.HostPath.Path, "precious"), nil, 0o600))
			test.change(t, f, pv)
			before, beforeOutside := below(t, f.base), below(t, outside)
			err := f.delete(t, pv)
			require.Error(t, err)
			assert.True(t, errors.Is(err, volume.ErrInvalid) || errors.Is(err, volume.ErrInUse), err)
			assert.ErrorContains(t, err, test.mentions)
			assert.ErrorContains(t, err, pv.Name)
			assert.Equal(t, before, below(t, f.base))
			assert.Equal(t, beforeOutside, below(t, outside))
		})
	}
}

func TestDeleteDoesNotGuessTheNode(t *testing.T) {
	f := newFixture(t, nil)
	pv := f.mustProvision(t, claim("data"))
	f.plugin = startOn(t, volume.Host{}, hostpath.Options{BasePaths: []string{f.base}})
	assert.ErrorIs(t, f.delete(t, pv), volume.ErrInvalid, "this node has no name")
	gone := errors.New("the API server is gone")
	f.plugin = startOn(t, volume.Host{NodeName: "node-1", Nodes: nodes{err: gone}}, hostpath.Options{BasePaths: []string{f.base}})
	assert.ErrorIs(t, f.delete(t, pv), gone)
	assert.DirExists(t, pv.Spec.HostPath.Path)
}

func TestDeleteDoesNotTakeAMissingBasePathForAnAnswer(t *testing.T) {
	f := newFixture(t, nil)
	pv := f.mustProvision(t, claim("data"))
	require.NoError(t, os.Rename(f.base, f.base+"-moved"))
	assert.ErrorContains(t, f.delete(t, pv), "the base path is missing")
	require.NoError(t, os.Rename(f.base+"-moved", f.base))
	assert.NoError(t, f.delete(t, pv))
}

func TestDeleteLeavesAForeignMountAlone(t *testing.T) {
	mountns.RequirePrivate(t)
	f := newFixture(t, nil)
	pv := f.mustProvision(t, claim("data"))
	point := filepath.Join(pv.Spec.HostPath.Path, "mounted")
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "precious"), nil, 0o600))
	require.NoError(t, os.Mkdir(point, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(pv.Spec.HostPath.Path, "file"), nil, 0o600))
	require.NoError(t, unix.Mount(outside, point, "", unix.MS_BIND, ""))
	for range 2 {
		err := f.delete(t, pv)
		require.ErrorIs(t, err, volume.ErrInUse)
		assert.ErrorContains(t, err, point)
		assert.FileExists(t, filepath.Join(point, "precious"))
		assert.NoFileExists(t, filepath.Join(pv.Spec.HostPath.Path, "file"))
	}
	require.NoError(t, unix.Unmount(point, 0))
	require.NoError(t, f.delete(t, pv))
	f.wantEmpty(t)
	assert.FileExists(t, filepath.Join(outside, "precious"))
}

func TestDeleteGoesOnAfterACrash(t *testing.T) {
	remove := func(parts ...string) error { return os.Remove(filepath.Join(parts...)) }
	steps := []struct {
		after string
		play  func(base string) error
	}{
		{"the directory", func(base string) error { return remove(base, "a/data") }},
		{"the owner", func(base string) error { return remove(base, ".volumekit-hostpath/volumes/a/data") }},
		{"the name", func(base string) error { return remove(base, ".volumekit-hostpath/names/pvc-data") }},
		{"the place of the owner", func(base string) error { return remove(base, ".volumekit-hostpath/volumes/a") }},
		{"the parent", func(base string) error { return remove(base, "a") }},
		{"the place of the name", func(base string) error { return remove(base, ".volumekit-hostpath/names") }},
	}
	for i, step := range steps {
		t.Run("after "+step.after, func(t *testing.T) {
			f := newFixture(t, map[string]string{"pathPattern": "a/${.PVC.name}"})
			pv := f.mustProvision(t, claim("data"))
			for _, step := range steps[:i+1] {
				require.NoError(t, step.play(f.base))
			}
			require.NoError(t, f.delete(t, pv))
			f.wantEmpty(t)
		})
	}
}

func TestDeleteOfWhatIsHalfMade(t *testing.T) {
	f := newFixture(t, map[string]string{"pathPattern": "${.PVC.namespace}/${.PVC.name}"})
	pv := f.mustProvision(t, claim("data"))
	require.NoError(t, f.delete(t, pv))
	for i, step := range steps {
		require.NoError(t, os.RemoveAll(f.base))
		crashAfter(t, i+1, f.base)
		require.NoError(t, f.delete(t, pv), "after %s", step.after)
		f.wantEmpty(t)
	}
}
