// SPDX-License-Identifier: Apache-2.0

package hostpath_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
)

// fixture is a plugin with one base path, in a directory that holds nothing else.
type fixture struct {
	plugin *hostpath.Plugin
	base   string
	class  *storagev1.StorageClass
}

func newFixture(t *testing.T, parameters map[string]string) fixture {
	t.Helper()
	base := filepath.Join(t.TempDir(), "base")
	return fixture{
		plugin: start(t, hostpath.Options{BasePaths: []string{base}}),
		base:   base,
		class: &storagev1.StorageClass{
			ObjectMeta:  metav1.ObjectMeta{Name: "directories"},
			Provisioner: hostpath.DefaultProvisionerName,
			Parameters:  parameters,
		},
	}
}

func claim(name string) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources:   v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("3Gi")}},
		},
	}
}

// provision provisions for a claim, as the volume "pvc-" and the claim's name.
func (f fixture) provision(t *testing.T, claim *v1.PersistentVolumeClaim) (*v1.PersistentVolume, error) {
	t.Helper()
	return f.provisionWith(t, volume.ProvisionOptions{PVName: "pvc-" + claim.Name, Claim: claim, Class: f.class})
}

func (f fixture) provisionWith(t *testing.T, options volume.ProvisionOptions) (*v1.PersistentVolume, error) {
	t.Helper()
	provisioner, err := f.plugin.NewProvisioner()
	require.NoError(t, err)
	return provisioner.Provision(t.Context(), options)
}

func (f fixture) mustProvision(t *testing.T, claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
	t.Helper()
	pv, err := f.provision(t, claim)
	require.NoError(t, err)
	return pv
}

func (f fixture) delete(t *testing.T, pv *v1.PersistentVolume) error {
	t.Helper()
	deleter, err := f.plugin.NewDeleter()
	require.NoError(t, err)
	return deleter.Delete(t.Context(), pv)
}

// wantEmpty fails the test if anything is below the base path.
func (f fixture) wantEmpty(t *testing.T) {
	t.Helper()
	assert.Empty(t, below(t, f.base))
}

// below lists everything below a directory that may be missing.
func below(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if path != dir && err == nil {
			found = append(found, strings.TrimPrefix(path, dir+"/"))
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	require.NoError(t, err)
	return found
}

func TestProvisionDescribesTheDirectoryThatItMakes(t *testing.T) {
	setUmask(t, 0o077)
	f := newFixture(t, nil)
	pv := f.mustProvision(t, claim("data"))
	directory, mode := v1.HostPathDirectory, v1.PersistentVolumeFilesystem
	path := filepath.Join(f.base, "pvc-data")
	assert.Equal(t, &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "pvc-data",
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": "volumekit.io/hostpath"},
		},
		Spec: v1.PersistentVolumeSpec{
			Capacity:                      v1.ResourceList{v1.ResourceStorage: resource.MustParse("3Gi")},
			PersistentVolumeSource:        v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path, Type: &directory}},
			AccessModes:                   []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimDelete,
			StorageClassName:              "directories",
			VolumeMode:                    &mode,
			NodeAffinity:                  onNode("node-1"),
		},
	}, pv)
	wantMode(t, fs.ModeDir|0o777, path)
	wantMode(t, fs.ModeDir|0o755, f.base)
	require.NoError(t, mounterOf(t, f.plugin, volume.NewSpecFromPersistentVolume(pv, false)).SetUp(t.Context(), volume.SetUpOptions{}))
}

func onNode(hostname string) *v1.VolumeNodeAffinity {
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: v1.NodeSelectorOpIn, Values: []string{hostname}}},
	}}}}
}

func TestTheParametersHaveTheirEffect(t *testing.T) {
	setUmask(t, 0o077)
	f := newFixture(t, map[string]string{"pathPattern": "${.PVC.namespace}/${.PVC.name}", "mode": "02750"})
	if os.Geteuid() == 0 {
		f.class.Parameters["uid"], f.class.Parameters["gid"] = "1234", "0"
	}
	f.class.Parameters["basePath"] = filepath.Join(f.base, "fast")
	retain := v1.PersistentVolumeReclaimRetain
	f.class.ReclaimPolicy = &retain
	pv := f.mustProvision(t, claim("data"))
	path := filepath.Join(f.base, "fast", "team-a", "data")
	assert.Equal(t, path, pv.Spec.HostPath.Path)
	assert.Equal(t, retain, pv.Spec.PersistentVolumeReclaimPolicy)
	wantMode(t, fs.ModeDir|fs.ModeSetgid|0o750, path)
	wantMode(t, fs.ModeDir|0o755, filepath.Dir(path))
	if os.Geteuid() == 0 {
		assert.EqualValues(t, 1234, describe(t, path).uid)
		assert.EqualValues(t, 0, describe(t, path).gid)
	}
}

func TestProvisionAgainReturnsTheSameDirectory(t *testing.T) {
	f := newFixture(t, nil)
	pv := f.mustProvision(t, claim("data"))
	file := filepath.Join(pv.Spec.HostPath.Path, "file")
	require.NoError(t, os.WriteFile(file, []byte("kept"), 0o600))
	require.NoError(t, os.Chmod(pv.Spec.HostPath.Path, 0o711)) // the pod's doing
	before := describe(t, pv.Spec.HostPath.Path)
	assert.Equal(t, pv, f.mustProvision(t, claim("data")))
	assert.Equal(t, before, describe(t, pv.Spec.HostPath.Path))
	assert.FileExists(t, file)
}

func TestAProvisionerNameOfOnesOwn(t *testing.T) {
	f := newFixture(t, nil)
	f.plugin = start(t, hostpath.Options{BasePaths: []string{f.base}, ProvisionerName: "example.com/dirs"})
	pv := f.mustProvision(t, claim("data"))
	assert.Equal(t, "example.com/dirs", pv.Annotations["pv.kubernetes.io/provisioned-by"])
	assert.NoError(t, f.delete(t, pv))
}

func TestABadPathPatternIsRefusedAndNothingIsCreated(t *testing.T) {
	f := newFixture(t, nil)
	for name, rendered := range map[string]string{
		"nothing":               "",
		"the base itself":       ".",
		"above":                 "..",
		"above in the end":      "a/../..",
		"up and down":           "a/../b",
		"an absolute path":      "/abs",
		"a slash at its end":    "a/",
		"two slashes":           "a//b",
		"a NUL":                 "a\x00b",
		"a newline":             "a\nb",
		"a name of 300 bytes":   strings.Repeat("n", 300),
		"a path of 5,000 bytes": strings.Repeat("n/", 2500) + "n",
		"the records":           ".volumekit-hostpath/volumes",
	} {
		t.Run(name, func(t *testing.T) {
			withAnnotation := claim("data")
			withAnnotation.Annotations = map[string]string{"example.com/dir": rendered}
			for pattern, claim := range map[string]*v1.PersistentVolumeClaim{
				rendered:                               claim("data"),
				"${.PVC.annotations.example.com/dir}":  withAnnotation,
				"${.PVC.annotations.example.com/dir}/": withAnnotation,
			} {
				f.class.Parameters = map[string]string{"pathPattern": pattern}
				_, err := f.provision(t, claim)
				require.ErrorIs(t, err, volume.ErrInvalid, pattern)
			}
			assert.NoDirExists(t, f.base)
			assert.Empty(t, below(t, filepath.Dir(f.base)))
		})
	}
}

func TestABadParameterIsRefusedByName(t *testing.T) {
	f := newFixture(t, nil)
	for name, parameters := range map[string]map[string]string{
		"hardLimit":                  {"hardLimit": "perhaps"},
		"Mode":                       {"Mode": "0777"},
		`mode="0999"`:                {"mode": "0999"},
		`mode="rwx"`:                 {"mode": "rwx"},
		`mode="10000"`:               {"mode": "10000"},
		`mode="-1"`:                  {"mode": "-1"},
		`uid="-1"`:                   {"uid": "-1"},
		`uid="4294967295"`:           {"uid": "4294967295"},
		`gid="staff"`:                {"gid": "staff"},
		`basePath="relative"`:        {"basePath": "relative"},
		`basePath=""`:                {"basePath": ""},
		`basePath="/etc"`:            {"basePath": "/etc"},
		"basePath=" + f.base + "x":   {"basePath": f.base + "x"},
		"basePath=" + f.base + "/..": {"basePath": f.base + "/.."},
		"${.PVC.spec}":               {"pathPattern": "${.PVC.spec}"},
		"${PVC.name}":                {"pathPattern": "${PVC.name}"},
		"${.PVC.name has no closing": {"pathPattern": "x-${.PVC.name"},
		`no label "team"`:            {"pathPattern": "${.PVC.labels.team}"},
		`no annotation "dir"`:        {"pathPattern": "a${.PVC.annotations.dir}"},
	} {
		t.Run(name, func(t *testing.T) {
			f.class.Parameters = parameters
			_, err := f.provision(t, claim("data"))
			require.ErrorIs(t, err, volume.ErrInvalid)
			if mention, _, found := strings.Cut(name, "="+f.base); found {
				assert.ErrorContains(t, err, mention)
			} else {
				assert.ErrorContains(t, err, name)
			}
			assert.NoDirExists(t, f.base)
		})
	}
}

func TestPathPatternsAreRendered(t *testing.T) {
	c := claim("data")
	c.Labels = map[string]string{"app": "web"}
	c.Annotations = map[string]string{"nfs.io/storage-path": "deep/er"}
	for pattern, want := range map[string]string{
		"fixed":         "fixed",
		"${.PV.name}":   "pvc-data",
		"$x-{}$":        "$x-{}$",
		"..${.PV.name}": "..pvc-data",
		"${.PVC.namespace}-${.PVC.name}/${.PVC.labels.app}": "team-a-data/web",
		"${.PVC.annotations.nfs.io/storage-path}/x":         "deep/er/x",
	} {
		f := newFixture(t, map[string]string{"pathPattern": pattern})
		pv := f.mustProvision(t, c)
		assert.Equal(t, filepath.Join(f.base, want), pv.Spec.HostPath.Path)
		assert.DirExists(t, pv.Spec.HostPath.Path)
		require.NoError(t, f.delete(t, pv))
		f.wantEmpty(t)
	}
}

func TestWhatADirectoryCannotGiveIsRefusedByName(t *testing.T) {
	name := "fast"
	for mentions, change := range map[string]func(*volume.ProvisionOptions){
		"ReadWriteMany": func(o *volume.ProvisionOptions) {
			o.Claim.Spec.AccessModes = append(o.Claim.Spec.AccessModes, v1.ReadWriteMany)
		},
		"ReadWriteOncePod": func(o *volume.ProvisionOptions) {
			o.Claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
		},
		"volumeMode Block": func(o *volume.ProvisionOptions) {
			block := v1.PersistentVolumeBlock
			o.Claim.Spec.VolumeMode = &block
		},
		"selector":   func(o *volume.ProvisionOptions) { o.Claim.Spec.Selector = &metav1.LabelSelector{} },
		"dataSource": func(o *volume.ProvisionOptions) { o.Claim.Spec.DataSource = &v1.TypedLocalObjectReference{} },
		"dataSourceRef": func(o *volume.ProvisionOptions) {
			o.Claim.Spec.DataSourceRef = &v1.TypedObjectReference{}
		},
		"volumeAttributesClassName": func(o *volume.ProvisionOptions) { o.Claim.Spec.VolumeAttributesClassName = &name },
		"resources.requests.storage": func(o *volume.ProvisionOptions) {
			o.Claim.Spec.Resources.Requests = nil
		},
		"mountOptions": func(o *volume.ProvisionOptions) { o.Class.MountOptions = []string{"noexec"} },
		"reclaimPolicy Recycle": func(o *volume.ProvisionOptions) {
			recycle := v1.PersistentVolumeReclaimRecycle
			o.Class.ReclaimPolicy = &recycle
		},
		"node node-2 was selected": func(o *volume.ProvisionOptions) {
			o.SelectedNode = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}}
		},
		"allowedTopologies": func(o *volume.ProvisionOptions) {
			o.Class.AllowedTopologies = topology("kubernetes.io/hostname", "node-2")
		},
		"volume name": func(o *volume.ProvisionOptions) { o.PVName = "../x" },
	} {
		t.Run(mentions, func(t *testing.T) {
			f := newFixture(t, nil)
			options := volume.ProvisionOptions{PVName: "pvc-data", Claim: claim("data"), Class: f.class}
			change(&options)
			_, err := f.provisionWith(t, options)
			require.Error(t, err)
			assert.True(t, errors.Is(err, volume.ErrInvalid) || errors.Is(err, volume.ErrNotSupported), err)
			assert.ErrorContains(t, err, mentions)
			assert.NoDirExists(t, f.base)
		})
	}
}

func topology(key string, values ...string) []v1.TopologySelectorTerm {
	return []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: key, Values: values}}}}
}

func TestTwoClaimsNeverShareADirectory(t *testing.T) {
	f := newFixture(t, map[string]string{"pathPattern": "shared"})
	pv := f.mustProvision(t, claim("first"))
	_, err := f.provision(t, claim("second"))
	require.ErrorIs(t, err, volume.ErrInUse)
	assert.ErrorContains(t, err, pv.Spec.HostPath.Path)
	assert.ErrorContains(t, err, "PersistentVolume pvc-first")

	require.NoError(t, f.delete(t, pv))
	f.mustProvision(t, claim("second"))
}

func TestADirectoryIsNotMadeInsideOrAroundThatOfAnotherClaim(t *testing.T) {
	f := newFixture(t, map[string]string{"pathPattern": "${.PVC.annotations.dir}"})
	at := func(name, dir string) *v1.PersistentVolumeClaim {
		c := claim(name)
		c.Annotations = map[string]string{"dir": dir}
		return c
	}
	f.mustProvision(t, at("middle", "a/b"))
	before := below(t, f.base)
	for name, dir := range map[string]string{"inside": "a/b/c", "deep-inside": "a/b/c/d", "around": "a"} {
		_, err := f.provision(t, at(name, dir))
		require.ErrorIs(t, err, volume.ErrInUse, name)
		assert.Equal(t, before, below(t, f.base), name)
	}
	f.mustProvision(t, at("beside", "a/c"))
}

func TestADirectoryThatWasNotProvisionedIsLeftAlone(t *testing.T) {
	f := newFixture(t, nil)
	path := filepath.Join(f.base, "pvc-data")
	for what, make := range map[string]func() error{
		"a directory":        func() error { return os.Mkdir(path, 0o700) },
		"a file":             func() error { return os.WriteFile(path, nil, 0o600) },
		"a link":             func() error { return os.Symlink("/etc", path) },
		"a link to nowhere":  func() error { return os.Symlink("nowhere", path) },
		"a link to the base": func() error { return os.Symlink(".", path) },
	} {
		t.Run(what, func(t *testing.T) {
			require.NoError(t, os.MkdirAll(f.base, 0o755))
			require.NoError(t, make())
			before := describe(t, path)
			_, err := f.provision(t, claim("data"))
			require.ErrorIs(t, err, volume.ErrInvalid)
			assert.ErrorContains(t, err, path)
			assert.Equal(t, before, describe(t, path))
			assert.Equal(t, []string{"pvc-data"}, below(t, f.base))
			require.NoError(t, os.Remove(path))
		})
	}
}

func TestALinkOnTheWayToTheDirectoryIsRefused(t *testing.T) {
	f := newFixture(t, map[string]string{"pathPattern": "team/data"})
	outside := t.TempDir()
	require.NoError(t, os.MkdirAll(f.base, 0o755))
	require.NoError(t, os.Symlink(outside, filepath.Join(f.base, "team")))
	_, err := f.provision(t, claim("data"))
	require.ErrorIs(t, err, volume.ErrInvalid)
	assert.ErrorContains(t, err, filepath.Join(f.base, "team"))
	assert.Empty(t, below(t, outside))
}

func TestTheBasePathMayBeALink(t *testing.T) {
	f := newFixture(t, nil)
	real := t.TempDir()
	require.NoError(t, os.Symlink(real, f.base))
	pv := f.mustProvision(t, claim("data"))
	assert.Equal(t, filepath.Join(f.base, "pvc-data"), pv.Spec.HostPath.Path)
	assert.DirExists(t, filepath.Join(real, "pvc-data"))
	require.NoError(t, f.delete(t, pv))
	assert.Empty(t, below(t, real))
}

func TestAMountOnTheWayIsRefused(t *testing.T) {
	mountns.RequirePrivate(t)
	f := newFixture(t, map[string]string{"pathPattern": "disk/data"})
	disk := filepath.Join(f.base, "disk")
	require.NoError(t, os.MkdirAll(disk, 0o755))
	require.NoError(t, unix.Mount("tmpfs", disk, "tmpfs", 0, ""))
	defer unix.Unmount(disk, 0)
	_, err := f.provision(t, claim("data"))
	require.ErrorIs(t, err, volume.ErrInvalid)
	assert.ErrorContains(t, err, `mounted on "`+disk+`"`)
	assert.Empty(t, below(t, disk))
}

// The steps of provisioning team-a/data for pvc-data, each with those before it, as a crash leaves them.
var steps = []struct {
	after string
	play  func(base string) error
}{
	{"the base path", func(base string) error { return os.Mkdir(base, 0o755) }},
	{"a place for the name", func(base string) error { return os.MkdirAll(filepath.Join(base, ".volumekit-hostpath/names"), 0o700) }},
	{"the name", func(base string) error {
		return os.Symlink("volumekit-hostpath/v1/begun/team-a/data", filepath.Join(base, ".volumekit-hostpath/names/pvc-data"))
	}},
	{"a place for the owner", func(base string) error {
		return os.MkdirAll(filepath.Join(base, ".volumekit-hostpath/volumes/team-a"), 0o700)
	}},
	{"the owner", func(base string) error {
		return os.Symlink("volumekit-hostpath/v1/owner/pvc-data", filepath.Join(base, ".volumekit-hostpath/volumes/team-a/data"))
	}},
	{"the parent", func(base string) error { return os.Mkdir(filepath.Join(base, "team-a"), 0o755) }},
	{"the directory", func(base string) error { return os.Mkdir(filepath.Join(base, "team-a/data"), 0o700) }},
	{"the next record", func(base string) error {
		return os.Symlink("volumekit-hostpath/v1/complete/team-a/data", filepath.Join(base, ".volumekit-hostpath/n-pvc-data"))
	}},
}

// crashAfter plays the first n steps.
func crashAfter(t *testing.T, n int, base string) {
	t.Helper()
	for _, step := range steps[:n] {
		require.NoError(t, step.play(base), step.after)
	}
}

func TestProvisionGoesOnAfterACrash(t *testing.T) {
	for i, step := range steps {
		t.Run("after "+step.after, func(t *testing.T) {
			f := newFixture(t, map[string]string{"pathPattern": "${.PVC.namespace}/${.PVC.name}"})
			crashAfter(t, i+1, f.base)
			pv := f.mustProvision(t, claim("data"))
			assert.Equal(t, filepath.Join(f.base, "team-a", "data"), pv.Spec.HostPath.Path)
			wantMode(t, fs.ModeDir|0o777, pv.Spec.HostPath.Path)
			require.NoError(t, os.WriteFile(filepath.Join(pv.Spec.HostPath.Path, "file"), nil, 0o600))
			assert.Equal(t, pv, f.mustProvision(t, claim("data")))
			require.NoError(t, f.delete(t, pv))
			f.wantEmpty(t)
		})
	}
}

func TestTheStepsAreThoseOfProvision(t *testing.T) {
	f := newFixture(t, map[string]string{"pathPattern": "${.PVC.namespace}/${.PVC.name}"})
	pv := f.mustProvision(t, claim("data"))
	made := below(t, f.base)
	require.NoError(t, f.delete(t, pv))
	require.NoError(t, os.Remove(f.base))

	crashAfter(t, len(steps), f.base)
	require.NoError(t, os.Rename(filepath.Join(f.base, ".volumekit-hostpath/n-pvc-data"), filepath.Join(f.base, ".volumekit-hostpath/names/pvc-data")))
	require.NoError(t, os.Chmod(pv.Spec.HostPath.Path, 0o777))
	assert.Equal(t, made, below(t, f.base))
	before := describe(t, pv.Spec.HostPath.Path)
	f.mustProvision(t, claim("data"))
	assert.Equal(t, before, describe(t, pv.Spec.HostPath.Path), "it counts as complete")
}

func TestAClaimThatHasChangedKeepsItsDirectory(t *testing.T) {
	f := newFixture(t, map[string]string{"pathPattern": "${.PVC.labels.app}"})
	c := claim("data")
	c.Labels = map[string]string{"app": "one"}
	pv := f.mustProvision(t, c)
	c.Labels["app"] = "two"
	assert.Equal(t, pv, f.mustProvision(t, c))
	assert.NoDirExists(t, filepath.Join(f.base, "two"))
	require.NoError(t, f.delete(t, pv))
	assert.Equal(t, filepath.Join(f.base, "two"), f.mustProvision(t, c).Spec.HostPath.Path, "a volume that was deleted is forgotten")
}

func TestADirectoryThatWasRemovedByHandIsMadeAgain(t *testing.T) {
	f := newFixture(t, nil)
	pv := f.mustProvision(t, claim("data"))
	require.NoError(t, os.Remove(pv.Spec.HostPath.Path))
	assert.Equal(t, pv, f.mustProvision(t, claim("data")))
	wantMode(t, fs.ModeDir|0o777, pv.Spec.HostPath.Path)
}

func TestFilesInAnUnfinishedDirectoryAreNotTakenOver(t *testing.T) {
	f := newFixture(t, map[string]string{"pathPattern": "${.PVC.namespace}/${.PVC.name}"})
	crashAfter(t, 7, f.base)
	file := filepath.Join(f.base, "team-a", "data", "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for range 2 {
		_, err := f.provision(t, claim("data"))
		require.ErrorIs(t, err, volume.ErrInvalid)
		wantMode(t, fs.ModeDir|0o700, filepath.Dir(file))
		assert.Equal(t, []string{"team-a", "team-a/data", "team-a/data/file"}, below(t, f.base))
	}
}

func TestAnUnfinishedVolumeWhosePlaceIsTakenGoesElsewhere(t *testing.T) {
	f := newFixture(t, map[string]string{"pathPattern": "${.PVC.namespace}/${.PVC.name}"})
	crashAfter(t, 3, f.base)
	require.NoError(t, os.MkdirAll(filepath.Join(f.base, "team-a", "data"), 0o755))
	_, err := f.provision(t, claim("data"))
	require.ErrorIs(t, err, volume.ErrInvalid)
	f.class.Parameters = nil
	assert.Equal(t, filepath.Join(f.base, "pvc-data"), f.mustProvision(t, claim("data")).Spec.HostPath.Path)
}

func TestARecordThatIsNotUnderstoodStopsEverything(t *testing.T) {
	f := newFixture(t, nil)
	pv := f.mustProvision(t, claim("data"))
	for _, kind := range []string{"volumes", "names"} {
		record := filepath.Join(f.base, ".volumekit-hostpath", kind, "pvc-data")
		before, err := os.Readlink(record)
		require.NoError(t, err)
		require.NoError(t, os.Remove(record))
		require.NoError(t, os.Symlink("volumekit-hostpath/v2/what?", record))
		_, err = f.provision(t, claim("data"))
		assert.ErrorContains(t, err, "is not understood")
		assert.ErrorContains(t, f.delete(t, pv), "is not understood")
		assert.DirExists(t, pv.Spec.HostPath.Path)
		require.NoError(t, os.Remove(record))
		require.NoError(t, os.Symlink(before, record))
	}
	assert.NoError(t, f.delete(t, pv))
}

// TestNeighboursComeAndGoAtOnce has volumes with one parent be made and deleted at the same time: the parent is removed
// whenever it is empty.
func TestNeighboursComeAndGoAtOnce(t *testing.T) {
	f := newFixture(t, map[string]string{"pathPattern": "a/b/${.PVC.name}"})
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for range 25 {
				pv, err := f.provision(t, claim(fmt.Sprint("data-", worker)))
				if !assert.NoError(t, err) {
					return
				}
				assert.DirExists(t, pv.Spec.HostPath.Path)
				if !assert.NoError(t, f.delete(t, pv)) {
					return
				}
			}
		})
	}
	all.Wait()
	f.wantEmpty(t)
}

func TestOfManyClaimsForOneDirectoryOneWins(t *testing.T) {
	for name, dirs := range map[string][]string{
		"the same":          {"a"},
		"inside each other": {"a", "a/b", "a/b/c"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				f := newFixture(t, map[string]string{"pathPattern": "${.PVC.annotations.dir}"})
				var all sync.WaitGroup
				begin, won := make(chan struct{}), make(chan string, 12)
				for i := range cap(won) {
					c := claim(fmt.Sprint("data-", i))
					c.Annotations = map[string]string{"dir": dirs[i%len(dirs)]}
					all.Go(func() {
						<-begin
						pv, err := f.provision(t, c)
						if err != nil {
							assert.True(t, errors.Is(err, volume.ErrInUse) || errors.Is(err, volume.ErrInvalid), err)
							return
						}
						won <- pv.Name + " at " + pv.Spec.HostPath.Path
					})
				}
				close(begin)
				all.Wait()
				close(won)
				var winners []string
				for winner := range won {
					winners = append(winners, winner)
				}
				assert.LessOrEqual(t, len(winners), 1, "%q", winners)
			}
		})
	}
}

func TestAProvisionedPathHasToBeAllowed(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base")
	f := newFixture(t, nil)
	f.plugin = start(t, hostpath.Options{BasePaths: []string{base}, AllowedPaths: []hostpath.AllowedPath{{Prefix: "/srv"}}})
	_, err := f.provision(t, claim("data"))
	require.ErrorIs(t, err, volume.ErrInvalid)
	assert.ErrorContains(t, err, "not below an allowed path")
	assert.NoDirExists(t, base)
}

func TestWithoutBasePathsNothingIsProvisioned(t *testing.T) {
	plugin := start(t, hostpath.Options{})
	_, err := plugin.NewProvisioner()
	require.ErrorIs(t, err, volume.ErrNotSupported)
	assert.ErrorContains(t, err, "BasePaths")
	_, err = plugin.NewDeleter()
	require.ErrorIs(t, err, volume.ErrNotSupported)
	assert.ErrorContains(t, err, "BasePaths")
}

func TestProvisionOnADeadServerIsUncertain(t *testing.T) {
	dead := t.TempDir()
	mountns.DeadFUSE(t, dead)
	f := newFixture(t, nil)
	f.plugin = start(t, hostpath.Options{BasePaths: []string{filepath.Join(dead, "base")}})
	provisioner, err := f.plugin.NewProvisioner()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	returned := make(chan error, 1)
	go func() {
		_, err := provisioner.Provision(ctx, volume.ProvisionOptions{PVName: "pvc-data", Claim: claim("data"), Class: f.class})
		returned <- err
	}()
	awaitGoroutine(t, "hostpath.location.tryMake")
	cancel()
	assert.ErrorIs(t, <-returned, volume.ErrUncertain)
}

// nodes is a NodeSource of one node.
type nodes struct {
	labels map[string]string
	err    error
}

func (n nodes) Node(_ context.Context, name types.NodeName) (*v1.Node, error) {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: string(name), Labels: n.labels}}, n.err
}

func TestTheAffinityIsTheNodesHostname(t *testing.T) {
	labels := map[string]string{"kubernetes.io/hostname": "host-1", "topology.kubernetes.io/zone": "z1"}
	for name, test := range map[string]struct {
		host     volume.Host
		selected *v1.Node
		want     *v1.VolumeNodeAffinity
	}{
		"the node has no name":        {host: volume.Host{}, want: nil},
		"nothing but its name":        {host: volume.Host{NodeName: "node-1"}, want: onNode("node-1")},
		"labels from the host":        {host: volume.Host{NodeName: "node-1", Nodes: nodes{labels: labels}}, want: onNode("host-1")},
		"labels of the selected node": {host: volume.Host{NodeName: "node-1"}, selected: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: labels}}, want: onNode("host-1")},
		"a selected node without any": {host: volume.Host{NodeName: "node-1"}, selected: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, want: onNode("node-1")},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.plugin = startOn(t, test.host, hostpath.Options{BasePaths: []string{f.base}})
			pv, err := f.provisionWith(t, volume.ProvisionOptions{PVName: "pvc-data", Claim: claim("data"), Class: f.class, SelectedNode: test.selected})
			require.NoError(t, err)
			assert.Equal(t, test.want, pv.Spec.NodeAffinity)
			if test.selected == nil {
				assert.NoError(t, f.delete(t, pv))
			}
		})
	}
}

func TestAllowedTopologiesAreComparedWithTheLabels(t *testing.T) {
	zone := nodes{labels: map[string]string{"topology.kubernetes.io/zone": "z1"}}
	for name, test := range map[string]struct {
		host    volume.Host
		terms   []v1.TopologySelectorTerm
		allowed bool
	}{
		"the hostname":            {volume.Host{NodeName: "node-1"}, topology("kubernetes.io/hostname", "node-0", "node-1"), true},
		"the zone":                {volume.Host{NodeName: "node-1", Nodes: zone}, topology("topology.kubernetes.io/zone", "z1"), true},
		"one of several terms":    {volume.Host{NodeName: "node-1", Nodes: zone}, append(topology("rack", "r"), topology("topology.kubernetes.io/zone", "z1")...), true},
		"another zone":            {volume.Host{NodeName: "node-1", Nodes: zone}, topology("topology.kubernetes.io/zone", "z2"), false},
		"a label that is unknown": {volume.Host{NodeName: "node-1"}, topology("topology.kubernetes.io/zone", "z1"), false},
		"a node without name":     {volume.Host{}, topology("kubernetes.io/hostname", "node-1"), false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.plugin = startOn(t, test.host, hostpath.Options{BasePaths: []string{f.base}})
			f.class.AllowedTopologies = test.terms
			_, err := f.provision(t, claim("data"))
			if test.allowed {
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, volume.ErrInvalid)
			}
		})
	}
}
