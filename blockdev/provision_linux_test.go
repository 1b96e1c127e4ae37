// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
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
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
)

// workshop is a plugin with one base path, in a directory that holds nothing else.
type workshop struct {
	plugin *Plugin
	base   string
	class  *storagev1.StorageClass
}

func newWorkshop(t *testing.T, parameters map[string]string) *workshop {
	t.Helper()
	return workshopIn(t, filepath.Join(t.TempDir(), "base"), parameters)
}

func workshopIn(t *testing.T, base string, parameters map[string]string) *workshop {
	t.Helper()
	host, err := volume.Host{Root: base + ".root", NodeName: "node-1"}.Complete()
	require.NoError(t, err)
	p := New(Options{BasePaths: []string{base}})
	require.NoError(t, p.Init(t.Context(), host))
	return &workshop{plugin: p, base: base, class: &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "devices"}, Provisioner: DefaultProvisionerName, Parameters: parameters,
	}}
}

func claimOf(size string) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "data"},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources:   v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}},
		},
	}
}

func rawClaimOf(size string) *v1.PersistentVolumeClaim {
	c := claimOf(size)
	c.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
	return c
}

func (w *workshop) provision(ctx context.Context, name string, claim *v1.PersistentVolumeClaim) (*v1.PersistentVolume, error) {
	provisioner, err := w.plugin.NewProvisioner()
	if err != nil {
		return nil, err
	}
	return provisioner.Provision(ctx, volume.ProvisionOptions{PVName: name, Claim: claim, Class: w.class})
}

func (w *workshop) mustProvision(t *testing.T, name string, claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
	t.Helper()
	pv, err := w.provision(t.Context(), name, claim)
	require.NoError(t, err)
	return pv
}

func (w *workshop) delete(ctx context.Context, pv *v1.PersistentVolume) error {
	deleter, err := w.plugin.NewDeleter()
	if err != nil {
		return err
	}
	return deleter.Delete(ctx, pv)
}

// filesBelow lists everything below a directory that may be missing.
func filesBelow(t *testing.T, dir string) []string {
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

func allocatedBytes(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Stat(path, &st))
	return st.Blocks * 512
}

func TestProvisionDescribesTheDeviceThatItMakes(t *testing.T) {
	w := newWorkshop(t, nil)
	w.class.MountOptions = []string{"noatime"}
	pv := w.mustProvision(t, "pvc-data", claimOf("10000001"))
	path := filepath.Join(w.base, "pvc-data.img")
	assert.Equal(t, &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "pvc-data",
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": "volumekit.io/blockdev"},
		},
		Spec: v1.PersistentVolumeSpec{
			Capacity:                      v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(10002432, resource.BinarySI)},
			PersistentVolumeSource:        v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path, FSType: ptr.To("ext4")}},
			AccessModes:                   []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimDelete,
			StorageClassName:              "devices",
			MountOptions:                  []string{"noatime"},
			VolumeMode:                    ptr.To(v1.PersistentVolumeFilesystem),
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: v1.NodeSelectorOpIn, Values: []string{"node-1"}}},
			}}}},
		},
	}, pv)
	info, err := os.Lstat(path)
	require.NoError(t, err)
	assert.EqualValues(t, 10002432, info.Size())
	assert.Equal(t, fs.FileMode(0o600), info.Mode())
	assert.Equal(t, "ext4", contentOf(t, path).Type)
	assert.Less(t, allocatedBytes(t, path), info.Size()/2, "it is sparse")
	assert.Equal(t, []string{".volumekit-blockdev", ".volumekit-blockdev/pvc-data.json", "pvc-data.img"}, filesBelow(t, w.base))
	require.NoError(t, w.delete(t.Context(), pv))
	require.NoError(t, w.delete(t.Context(), pv))
	assert.Empty(t, filesBelow(t, w.base))
}

func TestTheParametersHaveTheirEffect(t *testing.T) {
	w := newWorkshop(t, map[string]string{"fsType": "ext4", "mkfsOptions": " -L  data ", "preallocate": "true", "scrubOnDelete": "false"})
	w.class.Parameters["directory"] = filepath.Join(w.base, "fast", "disk")
	w.class.ReclaimPolicy = ptr.To(v1.PersistentVolumeReclaimRetain)
	pv := w.mustProvision(t, "pvc-data", claimOf("8Mi"))
	path := filepath.Join(w.base, "fast", "disk", "pvc-data.img")
	assert.Equal(t, path, pv.Spec.Local.Path)
	assert.Equal(t, v1.PersistentVolumeReclaimRetain, pv.Spec.PersistentVolumeReclaimPolicy)
	assert.Equal(t, "data", contentOf(t, path).Label)
	assert.GreaterOrEqual(t, allocatedBytes(t, path), int64(8<<20))
	require.NoError(t, w.delete(t.Context(), pv))
	assert.Equal(t, []string{"fast", "fast/disk"}, filesBelow(t, w.base))

	for fsType, size := range map[string]string{"xfs": "300Mi", "btrfs": "109Mi"} {
		w.class.Parameters = map[string]string{"fsType": fsType}
		pv := w.mustProvision(t, "pvc-"+fsType, claimOf(size))
		assert.Equal(t, fsType, contentOf(t, pv.Spec.Local.Path).Type)
		require.NoError(t, w.delete(t.Context(), pv))
	}
	w.class.Parameters = nil
	pv = w.mustProvision(t, "pvc-raw", rawClaimOf("1"))
	assert.Nil(t, pv.Spec.Local.FSType)
	assert.Equal(t, v1.PersistentVolumeBlock, *pv.Spec.VolumeMode)
	assert.True(t, contentOf(t, pv.Spec.Local.Path).Blank)
}

func TestWhatCannotBeProvisionedIsRefusedByName(t *testing.T) {
	w := newWorkshop(t, nil)
	for _, test := range []struct {
		mention    string
		parameters map[string]string
		change     func(*volume.ProvisionOptions)
	}{
		{mention: `"fstype"`, parameters: map[string]string{"fstype": "ext4"}},
		{mention: `fsType="ext3"`, parameters: map[string]string{"fsType": "ext3"}},
		{mention: `fsType=""`, parameters: map[string]string{"fsType": ""}},
		{mention: "-F", parameters: map[string]string{"mkfsOptions": "-b 1024 -F"}},
		{mention: "-f", parameters: map[string]string{"fsType": "btrfs", "mkfsOptions": "--force"}},
		{mention: "/dev/sda", parameters: map[string]string{"mkfsOptions": "/dev/sda"}},
		{mention: `";reboot"`, parameters: map[string]string{"mkfsOptions": "-L x ;reboot"}},
		{mention: `preallocate="yes"`, parameters: map[string]string{"preallocate": "yes"}},
		{mention: `scrubOnDelete="1"`, parameters: map[string]string{"scrubOnDelete": "1"}},
		{mention: `directory="data"`, parameters: map[string]string{"directory": "data"}},
		{mention: "directory", parameters: map[string]string{"directory": "/"}},
		{mention: "directory", parameters: map[string]string{"directory": w.base + "x"}},
		{mention: "..", parameters: map[string]string{"directory": w.base + "/../x"}},
		{mention: "NUL", parameters: map[string]string{"directory": w.base + "/\x00"}},
		{mention: recordsDir, parameters: map[string]string{"directory": w.base + "/" + recordsDir}},
		{mention: "fsType", parameters: map[string]string{"fsType": "ext4"}, change: asBlock},
		{mention: "mkfsOptions", parameters: map[string]string{"mkfsOptions": "-L x"}, change: asBlock},
		{mention: "mountOptions", change: func(o *volume.ProvisionOptions) { asBlock(o); o.Class.MountOptions = []string{"noatime"} }},
		{mention: `"bind"`, change: func(o *volume.ProvisionOptions) { o.Class.MountOptions = []string{"noatime", "bind"} }},
		{mention: `"a,b"`, change: func(o *volume.ProvisionOptions) { o.Class.MountOptions = []string{"a,b"} }},
		{mention: "300Mi", parameters: map[string]string{"fsType": "xfs"}},
		{mention: "109Mi", parameters: map[string]string{"fsType": "btrfs"}},
		{mention: "1Mi", change: func(o *volume.ProvisionOptions) { o.Claim.Spec.Resources = claimOf("1000k").Spec.Resources }},
		{mention: "resources.requests.storage", change: func(o *volume.ProvisionOptions) { o.Claim.Spec.Resources.Requests = nil }},
		{mention: "size 16E", change: func(o *volume.ProvisionOptions) { o.Claim.Spec.Resources = claimOf("16E").Spec.Resources }},
		{mention: "ReadWriteMany", change: func(o *volume.ProvisionOptions) {
			o.Claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
		}},
		{mention: "selector", change: func(o *volume.ProvisionOptions) { o.Claim.Spec.Selector = &metav1.LabelSelector{} }},
		{mention: "dataSource", change: func(o *volume.ProvisionOptions) { o.Claim.Spec.DataSource = &v1.TypedLocalObjectReference{} }},
		{mention: "dataSourceRef", change: func(o *volume.ProvisionOptions) { o.Claim.Spec.DataSourceRef = &v1.TypedObjectReference{} }},
		{mention: "reclaimPolicy Recycle", change: func(o *volume.ProvisionOptions) {
			o.Class.ReclaimPolicy = ptr.To(v1.PersistentVolumeReclaimRecycle)
		}},
		{mention: "node-2", change: func(o *volume.ProvisionOptions) {
			o.SelectedNode = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}}
		}},
		{mention: "volume name", change: func(o *volume.ProvisionOptions) { o.PVName = "../x" }},
		{mention: "volume name", change: func(o *volume.ProvisionOptions) { o.PVName = "a/b" }},
		{mention: "volume name", change: func(o *volume.ProvisionOptions) { o.PVName = "" }},
		{mention: "volume name", change: func(o *volume.ProvisionOptions) { o.PVName = "." + recordsDir }},
		{mention: "241 bytes", change: func(o *volume.ProvisionOptions) { o.PVName = strings.Repeat("n", 241) }},
	} {
		t.Run(test.mention, func(t *testing.T) {
			options := volume.ProvisionOptions{PVName: "pvc-data", Claim: claimOf("8Mi"), Class: w.class.DeepCopy()}
			options.Class.Parameters = test.parameters
			if test.change != nil {
				test.change(&options)
			}
			provisioner, err := w.plugin.NewProvisioner()
			require.NoError(t, err)
			_, err = provisioner.Provision(t.Context(), options)
			require.Error(t, err)
			assert.True(t, errors.Is(err, volume.ErrInvalid) || errors.Is(err, volume.ErrNotSupported), err)
			assert.ErrorContains(t, err, test.mention)
			assert.NoDirExists(t, w.base)
		})
	}
}

func asBlock(o *volume.ProvisionOptions) { o.Claim.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock) }

func TestTheLongestNameIsServed(t *testing.T) {
	w := newWorkshop(t, nil)
	pv := w.mustProvision(t, strings.Repeat("n", maxNameBytes), rawClaimOf("1Mi"))
	require.NoError(t, w.delete(t.Context(), pv))
	assert.Empty(t, filesBelow(t, w.base))
}

func TestProvisionAgainReturnsTheSameDeviceWhateverTheClassSaysNow(t *testing.T) {
	w := newWorkshop(t, map[string]string{"preallocate": "true"})
	pv := w.mustProvision(t, "pvc-data", claimOf("8Mi"))
	before, err := os.ReadFile(pv.Spec.Local.Path)
	require.NoError(t, err)
	w.class.Parameters = map[string]string{"directory": filepath.Join(w.base, "elsewhere"), "mkfsOptions": "-L other"}
	again := w.mustProvision(t, "pvc-data", claimOf("8Mi"))
	assert.Equal(t, pv, again)
	after, err := os.ReadFile(pv.Spec.Local.Path)
	require.NoError(t, err)
	assert.Equal(t, before, after)

	_, err = w.provision(t.Context(), "pvc-data", claimOf("16Mi"))
	require.ErrorIs(t, err, volume.ErrInvalid)
	w.class.Parameters = nil
	_, err = w.provision(t.Context(), "pvc-data", rawClaimOf("8Mi"))
	require.ErrorIs(t, err, volume.ErrInvalid)
	require.NoError(t, w.delete(t.Context(), pv))
}

func TestANameHasOneDeviceAmongAllBasePaths(t *testing.T) {
	w := newWorkshop(t, nil)
	second := filepath.Join(t.TempDir(), "second")
	p := New(Options{BasePaths: []string{w.base, second}})
	require.NoError(t, p.Init(t.Context(), w.plugin.host))
	w.plugin = p
	w.class.Parameters = map[string]string{"directory": second}
	pv := w.mustProvision(t, "pvc-data", rawClaimOf("1Mi"))
	w.class.Parameters = nil
	assert.Equal(t, pv, w.mustProvision(t, "pvc-data", rawClaimOf("1Mi")))
	assert.Equal(t, filepath.Join(second, "pvc-data.img"), pv.Spec.Local.Path)
	assert.NoDirExists(t, w.base)
}

func TestWhatIsThereAlreadyIsNeverTaken(t *testing.T) {
	for name, put := range map[string]func(string) error{
		"a file":             func(p string) error { return os.WriteFile(p, []byte("precious"), 0o600) },
		"an empty file":      func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"a directory":        func(p string) error { return os.Mkdir(p, 0o700) },
		"a dangling link":    func(p string) error { return os.Symlink("nowhere", p) },
		"a link to a device": func(p string) error { return os.Symlink("/dev/null", p) },
		"a named pipe":       func(p string) error { return unix.Mkfifo(p, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkshop(t, nil)
			path := filepath.Join(w.base, "pvc-data.img")
			require.NoError(t, os.Mkdir(w.base, 0o755))
			require.NoError(t, put(path))
			before, err := os.Lstat(path)
			require.NoError(t, err)
			_, err = w.provision(t.Context(), "pvc-data", claimOf("8Mi"))
			require.ErrorIs(t, err, volume.ErrInvalid)
			assert.ErrorContains(t, err, path)
			after, err := os.Lstat(path)
			require.NoError(t, err)
			assert.Equal(t, before, after)
			assert.Equal(t, []string{"pvc-data.img"}, filesBelow(t, w.base))

			// It is not deleted either.
			other := newWorkshop(t, nil)
			pv := other.mustProvision(t, "pvc-data", rawClaimOf("1Mi"))
			pv.Spec.Local.Path = path
			require.ErrorIs(t, w.delete(t.Context(), pv), volume.ErrInvalid)
			assert.Equal(t, []string{"pvc-data.img"}, filesBelow(t, w.base))
		})
	}
}

func TestAFileInThePlaceOfTheDeviceIsRefused(t *testing.T) {
	for name, put := range map[string]func(string) error{
		"a file":       func(p string) error { return os.WriteFile(p, []byte("precious"), 0o600) },
		"a link":       func(p string) error { return os.Symlink("precious", p) },
		"a directory":  func(p string) error { return os.Mkdir(p, 0o700) },
		"a named pipe": func(p string) error { return unix.Mkfifo(p, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkshop(t, map[string]string{"scrubOnDelete": "true"})
			pv := w.mustProvision(t, "pvc-data", rawClaimOf("1Mi"))
			require.NoError(t, os.WriteFile(filepath.Join(w.base, "precious"), []byte("precious"), 0o600))
			require.NoError(t, os.Remove(pv.Spec.Local.Path)) // its inode may be used again
			require.NoError(t, put(pv.Spec.Local.Path))
			before, err := os.Lstat(pv.Spec.Local.Path)
			require.NoError(t, err)
			_, err = w.provision(t.Context(), "pvc-data", rawClaimOf("1Mi"))
			require.ErrorIs(t, err, volume.ErrInvalid)
			require.ErrorIs(t, w.delete(t.Context(), pv), volume.ErrInvalid)
			after, err := os.Lstat(pv.Spec.Local.Path)
			require.NoError(t, err)
			assert.True(t, os.SameFile(before, after))
			content, err := os.ReadFile(filepath.Join(w.base, "precious"))
			require.NoError(t, err)
			assert.Equal(t, "precious", string(content))
		})
	}
}

func TestSymbolicLinksOnTheWayAreRefused(t *testing.T) {
	decoy := t.TempDir()
	for name, link := range map[string]string{"the directory": "fast", "above the directory": "", "the records": recordsDir} {
		t.Run(name, func(t *testing.T) {
			w := newWorkshop(t, nil)
			w.class.Parameters = map[string]string{"directory": filepath.Join(w.base, "up", "fast")}
			if link != recordsDir {
				link = filepath.Join("up", link)
			}
			path := filepath.Join(w.base, link)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.Symlink(decoy, path))
			_, err := w.provision(t.Context(), "pvc-data", rawClaimOf("1Mi"))
			require.ErrorIs(t, err, volume.ErrInvalid)
			assert.ErrorContains(t, err, path)
			assert.Empty(t, filesBelow(t, decoy))
		})
	}

	w := newWorkshop(t, nil)
	w.class.Parameters = map[string]string{"directory": filepath.Join(w.base, "fast")}
	pv := w.mustProvision(t, "pvc-data", rawClaimOf("1Mi"))
	moved := filepath.Join(w.base, "moved")
	require.NoError(t, os.Rename(filepath.Join(w.base, "fast"), moved))
	require.NoError(t, os.Symlink(moved, filepath.Join(w.base, "fast")))
	require.ErrorIs(t, w.delete(t.Context(), pv), volume.ErrInvalid)
	_, err := w.expand(t, pv, "2Mi")
	require.ErrorIs(t, err, volume.ErrInvalid)
	assert.FileExists(t, filepath.Join(moved, "pvc-data.img"))
}

func TestFiftyClaimsAreServedAtOnce(t *testing.T) {
	w := newWorkshop(t, map[string]string{"scrubOnDelete": "true"})
	var wait sync.WaitGroup
	for n := range 50 {
		wait.Go(func() {
			name, claim := fmt.Sprintf("pvc-%d", n), rawClaimOf("1Mi")
			if n%5 == 0 {
				claim = claimOf("1Mi")
			}
			pv, err := w.provision(t.Context(), name, claim)
			if !assert.NoError(t, err) {
				return
			}
			again, err := w.provision(t.Context(), name, claim)
			assert.NoError(t, err)
			assert.Equal(t, pv, again)
			assert.NoError(t, w.delete(t.Context(), pv))
		})
	}
	wait.Wait()
	assert.Empty(t, filesBelow(t, w.base))
}

func TestTheSameClaimIsServedOnceHoweverManyAsk(t *testing.T) {
	w := newWorkshop(t, nil)
	var wait sync.WaitGroup
	pvs := make([]*v1.PersistentVolume, 20)
	for n := range pvs {
		wait.Go(func() {
			var err error
			pvs[n], err = w.provision(t.Context(), "pvc-data", claimOf("1Mi"))
			assert.NoError(t, err)
		})
	}
	wait.Wait()
	for _, pv := range pvs {
		assert.Equal(t, pvs[0], pv)
	}
	assert.Equal(t, []string{".volumekit-blockdev", ".volumekit-blockdev/pvc-data.json", "pvc-data.img"}, filesBelow(t, w.base))
}

func TestAFullDiskLeavesNothing(t *testing.T) {
	mountns.RequirePrivate(t)
	for name, mount := range map[string]func(t *testing.T, dir string){
		"tmpfs": func(t *testing.T, dir string) { require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m")) },
		"ext4": func(t *testing.T, dir string) {
			image := newImage(t, filepath.Join(t.TempDir(), "disk"), 4<<20)
			runProgram(t, "mkfs.ext4", "-q", image)
			require.NoError(t, unix.Mount(attachedDevice(t, image), dir, "ext4", 0, ""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			mount(t, dir)
			t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
			w := workshopIn(t, filepath.Join(dir, "base"), map[string]string{"preallocate": "true"})
			_, err := w.provision(t.Context(), "pvc-data", rawClaimOf("64Mi"))
			require.ErrorIs(t, err, volume.ErrExhausted)
			assert.Empty(t, filesBelow(t, w.base))

			// One that fits does not grow, and stays as it is.
			pv := w.mustProvision(t, "pvc-data", rawClaimOf("1Mi"))
			_, err = w.expand(t, pv, "64Mi")
			require.ErrorIs(t, err, volume.ErrExhausted)
			info, err := os.Stat(pv.Spec.Local.Path)
			require.NoError(t, err)
			assert.EqualValues(t, 1<<20, info.Size())
			assert.Equal(t, pv, w.mustProvision(t, "pvc-data", rawClaimOf("1Mi")))
			require.NoError(t, w.delete(t.Context(), pv))

			// mkfs runs out of space in a sparse file.
			w.class.Parameters = nil
			filler, err := os.Create(filepath.Join(dir, "filler"))
			require.NoError(t, err)
			size, err := io.Copy(filler, rand.Reader)
			require.ErrorIs(t, err, unix.ENOSPC)
			require.NoError(t, filler.Truncate(size-48<<10))
			require.NoError(t, filler.Close())
			_, err = w.provision(t.Context(), "pvc-data", claimOf("64Mi"))
			require.ErrorIs(t, err, volume.ErrExhausted)
			assert.ErrorContains(t, err, "mkfs.ext4")
			assert.NotErrorIs(t, err, volume.ErrUncertain)
			assert.Empty(t, filesBelow(t, w.base))
		})
	}
}

func TestAnMkfsThatFailsLeavesNothing(t *testing.T) {
	w := newWorkshop(t, map[string]string{"mkfsOptions": "-b 12345"})
	_, err := w.provision(t.Context(), "pvc-data", claimOf("8Mi"))
	require.Error(t, err)
	assert.NotErrorIs(t, err, volume.ErrUncertain)
	assert.ErrorContains(t, err, "12345")
	assert.Empty(t, filesBelow(t, w.base))
}
