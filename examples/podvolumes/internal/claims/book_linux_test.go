// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/volume"
)

const provisionerName = "test/directories"

// openBook opens the book below a root, with directories to be provisioned there. wrap changes the plugin; nil leaves it.
func openBook(t *testing.T, root string, wrap func(*hostpath.Plugin) volume.VolumePlugin) *Book {
	t.Helper()
	host, err := volume.Host{Root: root}.Complete()
	require.NoError(t, err)
	b, err := Open(host, map[string]Provisioner{provisionerName: {Parameter: "basePath", Default: filepath.Join(root, "made", "here"), New: func(dir string) volume.VolumePlugin {
		p := hostpath.New(hostpath.Options{BasePaths: []string{dir}, ProvisionerName: provisionerName})
		if wrap == nil {
			return p
		}
		return wrap(p)
	}}})
	require.NoError(t, err)
	return b
}

func newClass(name string, change ...func(*storagev1.StorageClass)) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisionerName}
	for _, f := range change {
		f(c)
	}
	return c
}

func newClaim(name, class, size string) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1.PersistentVolumeClaimSpec{
		StorageClassName: &class, Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}}}}
}

func requireNoFile(t *testing.T, root string) {
	t.Helper()
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestAClaimHasOneVolumeForEver(t *testing.T) {
	root := t.TempDir()
	classes := Classes{newClass("dirs")}
	first, err := openBook(t, root, nil).Serve(t.Context(), newClaim("data", "dirs", "1Gi"), classes)
	require.NoError(t, err)
	assert.Equal(t, "default/data", first.Spec.ClaimRef.Namespace+"/"+first.Spec.ClaimRef.Name)

	b := openBook(t, root, nil)
	assert.Equal(t, []*v1.PersistentVolume{first}, b.Volumes())
	again, err := b.Serve(t.Context(), newClaim("data", "dirs", "1Gi"), nil)
	require.NoError(t, err)
	assert.Equal(t, first, again, "also without its class")
	other, err := b.Serve(t.Context(), newClaim("other", "dirs", "1Gi"), classes)
	require.NoError(t, err)
	assert.NotEqual(t, first.Name, other.Name)

	for range 2 {
		require.NoError(t, b.Delete(t.Context(), nameOf(newClaim("data", "dirs", "1Gi"))))
	}
	assert.NoDirExists(t, first.Spec.HostPath.Path)
	assert.DirExists(t, other.Spec.HostPath.Path)
	require.NoError(t, b.Delete(t.Context(), nameOf(newClaim("other", "dirs", "1Gi"))))
	requireNoFile(t, root)
}

func TestAClaimOfSomebodyElseIsPassedOver(t *testing.T) {
	root := t.TempDir()
	b := openBook(t, root, nil)
	bound := newClaim("bound", "dirs", "1Gi")
	bound.Spec.VolumeName = "pv-1"
	foreign := newClass("foreign")
	foreign.Provisioner = "somebody.else/disk"
	for _, claim := range []*v1.PersistentVolumeClaim{bound, newClaim("data", "foreign", "1Gi"), newClaim("data", "absent", "1Gi")} {
		pv, err := b.Serve(t.Context(), claim, Classes{newClass("dirs"), foreign})
		require.NoError(t, err)
		assert.Nil(t, pv)
	}
	requireNoFile(t, root)
}

func TestTheDefaultClassIsForClaimsThatNameNone(t *testing.T) {
	isDefault := func(c *storagev1.StorageClass) {
		c.Annotations = map[string]string{defaultClassAnnotation: "true"}
	}
	older, newer := newClass("a", isDefault), newClass("b", isDefault)
	newer.CreationTimestamp = metav1.Now()
	classes := Classes{older, newer, newClass("c")}
	for want, claim := range map[string]*v1.PersistentVolumeClaim{"b": {}, "c": newClaim("data", "c", "1Gi"), "": newClaim("data", "", "1Gi")} {
		classes.SetDefault(claim)
		assert.Equal(t, want, *claim.Spec.StorageClassName)
	}
	none := &v1.PersistentVolumeClaim{}
	Classes{newClass("c")}.SetDefault(none)
	assert.Nil(t, none.Spec.StorageClassName)
}

func TestAVolumeThatIsToBeKeptIsKept(t *testing.T) {
	root := t.TempDir()
	b := openBook(t, root, nil)
	claim := newClaim("data", "dirs", "1Gi")
	pv, err := b.Serve(t.Context(), claim, Classes{newClass("dirs", func(c *storagev1.StorageClass) { c.ReclaimPolicy = ptr.To(v1.PersistentVolumeReclaimRetain) })})
	require.NoError(t, err)
	require.NoError(t, b.Delete(t.Context(), nameOf(claim)))
	assert.DirExists(t, pv.Spec.HostPath.Path)
	assert.Equal(t, []Entry{{Claim: nameOf(claim), Volume: pv.Name, Kept: true}}, b.Entries())
}

// uncertain is a plugin of which it is not known what came of its work.
type uncertain struct {
	*hostpath.Plugin
	does bool // it does it all the same
}

func (u uncertain) NewProvisioner() (volume.Provisioner, error) { return u, nil }
func (u uncertain) NewDeleter() (volume.Deleter, error)         { return u, nil }

var errUncertain = volume.Errorf(volume.ErrUncertain, "no answer")

func (u uncertain) Provision(ctx context.Context, options volume.ProvisionOptions) (*v1.PersistentVolume, error) {
	if !u.does {
		return nil, errUncertain
	}
	p, err := u.Plugin.NewProvisioner()
	if err == nil {
		_, err = p.Provision(ctx, options)
	}
	return nil, errors.Join(err, errUncertain)
}

func (u uncertain) Delete(ctx context.Context, pv *v1.PersistentVolume) error {
	if !u.does {
		return errUncertain
	}
	d, err := u.Plugin.NewDeleter()
	if err == nil {
		err = d.Delete(ctx, pv)
	}
	return errors.Join(err, errUncertain)
}

func TestWhatMayHaveBeenMadeIsFoundAgainOrDeleted(t *testing.T) {
	for _, does := range []bool{false, true} {
		for _, wanted := range []bool{false, true} {
			root := t.TempDir()
			classes, claim := Classes{newClass("dirs")}, newClaim("data", "dirs", "1Gi")
			wrap := func(p *hostpath.Plugin) volume.VolumePlugin { return uncertain{p, does} }
			_, err := openBook(t, root, wrap).Serve(t.Context(), claim, classes)
			require.ErrorIs(t, err, volume.ErrUncertain)

			b := openBook(t, root, nil)
			assert.Empty(t, b.Volumes())
			if wanted {
				_, err := b.Serve(t.Context(), claim, classes)
				require.NoError(t, err)
				require.ErrorIs(t, openBook(t, root, wrap).Delete(t.Context(), nameOf(claim)), volume.ErrUncertain)
				b = openBook(t, root, nil)
				_, err = b.Serve(t.Context(), claim, classes)
				require.ErrorIs(t, err, volume.ErrInUse, "nobody gets a volume that is half deleted")
			}
			require.NoError(t, b.Delete(t.Context(), nameOf(claim)))
			requireNoFile(t, root)
		}
	}
}

func TestAClaimThatWasRefusedMayAskForSomethingElse(t *testing.T) {
	root := t.TempDir()
	b := openBook(t, root, nil)
	claim := newClaim("data", "dirs", "1Gi")
	_, err := b.Serve(t.Context(), claim, Classes{newClass("dirs", func(c *storagev1.StorageClass) { c.Parameters = map[string]string{"mode": "rwx"} })})
	require.ErrorIs(t, err, volume.ErrInvalid)
	requireNoFile(t, root)
	_, err = b.Serve(t.Context(), claim, Classes{newClass("dirs")})
	require.NoError(t, err)
}

func TestADamagedPageIsNamedAndTheOthersAreThere(t *testing.T) {
	root := t.TempDir()
	b := openBook(t, root, nil)
	kept, err := b.Serve(t.Context(), newClaim("kept", "dirs", "1Gi"), Classes{newClass("dirs")})
	require.NoError(t, err)
	damaged, err := b.Serve(t.Context(), newClaim("damaged", "dirs", "1Gi"), Classes{newClass("dirs")})
	require.NoError(t, err)
	page := b.path(keyOf(nameOf(newClaim("damaged", "dirs", "1Gi"))))
	assert.NotEqual(t, kept.Name, damaged.Name)
	require.NoError(t, os.Truncate(page, 0))
	b, err = Open(volume.Host{Root: root}, nil)
	assert.ErrorContains(t, err, page)
	assert.Equal(t, []*v1.PersistentVolume{kept}, b.Volumes())
}

func TestTwoBooksThatProvisionInOneDirectoryShareNoVolume(t *testing.T) {
	class := newClass("dirs", func(c *storagev1.StorageClass) { c.Parameters = map[string]string{"basePath": t.TempDir()} })
	claim := newClaim("data", "dirs", "1Gi")
	var paths []string
	for range 2 {
		pv, err := openBook(t, t.TempDir(), nil).Serve(t.Context(), claim, Classes{class})
		require.NoError(t, err)
		paths = append(paths, pv.Spec.HostPath.Path)
	}
	assert.NotEqual(t, paths[0], paths[1])
}
