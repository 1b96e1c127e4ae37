// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/plugins"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	"github.com/volumekit/volumekit/volumemanager"
)

// claims is a source of claims that tests change.
type claims struct {
	mu       sync.Mutex
	claims   map[string]*v1.PersistentVolumeClaim
	volumes  map[string]*v1.PersistentVolume
	err      error
	asked    int
	watchers map[*func()]volume.Reference
}

func newClaims(objects ...any) *claims {
	c := &claims{claims: make(map[string]*v1.PersistentVolumeClaim), volumes: make(map[string]*v1.PersistentVolume), watchers: make(map[*func()]volume.Reference)}
	c.set(objects...)
	return c
}

func (c *claims) set(objects ...any) {
	for _, o := range objects {
		switch o := o.(type) {
		case *v1.PersistentVolumeClaim:
			c.change(volume.Reference{Kind: volume.KindPersistentVolumeClaim, Namespace: o.Namespace, Name: o.Name}, func() { c.claims[o.Name] = o })
		case *v1.PersistentVolume:
			c.change(volume.Reference{Kind: volume.KindPersistentVolume, Name: o.Name}, func() { c.volumes[o.Name] = o })
		}
	}
}

func (c *claims) change(ref volume.Reference, f func()) {
	c.mu.Lock()
	f()
	var told []func()
	for changed, watched := range c.watchers {
		if watched == ref {
			told = append(told, *changed)
		}
	}
	c.mu.Unlock()
	for _, changed := range told {
		changed()
	}
}

func (c *claims) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *claims) timesAsked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func (c *claims) Watch(ref volume.Reference, changed func()) (stop func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watchers[&changed] = ref
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watchers, &changed)
	}, true
}

func (c *claims) PersistentVolumeClaim(_ context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.err != nil {
		return nil, c.err
	}
	if found, ok := c.claims[name]; ok && found.Namespace == namespace {
		return found, nil
	}
	return nil, volume.Errorf(volume.ErrNotFound, "no such claim")
}

func (c *claims) PersistentVolume(_ context.Context, name string) (*v1.PersistentVolume, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.volumes[name]; ok {
		return found, nil
	}
	return nil, volume.Errorf(volume.ErrNotFound, "no such volume")
}

func claimNamed(name, volumeName string) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "uid-of-claim"}}
	c.Spec.VolumeName = volumeName
	c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	c.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	return c
}

func hostPathVolume(name, path string) *v1.PersistentVolume {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}}}
	pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadWriteMany}
	pv.Spec.HostPath = &v1.HostPathVolumeSource{Path: path, Type: ptr.To(v1.HostPathDirectory)}
	return pv
}

func localVolume(name, path string) *v1.PersistentVolume {
	pv := hostPathVolume(name, "")
	pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}}
	return pv
}

func claim(name, claimName string) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claimName}}}
}

func TestAClaimIsServedByThePersistentVolumeThatItIsBoundTo(t *testing.T) {
	dir := t.TempDir()
	source := newClaims(claimNamed("data-0", "pv-1"), hostPathVolume("pv-1", dir))
	b := openRigWith(t, volumemanager.Options{}, volume.Host{Root: t.TempDir(), Claims: source}, plugins.Default()...)
	p := pod("db", claim("data", "data-0"))
	status, err := b.SetUpPod(t.Context(), p)
	require.NoError(t, err)
	assert.Equal(t, dir, status.Volumes[0].Path)
	assert.Equal(t, "kubernetes.io/host-path", status.Volumes[0].Plugin)
	assert.Equal(t, dir, status.Containers[0].Mounts[0].Source)
	assert.NotContains(t, b.record(p.UID), "last-applied", "the record keeps what the volume is, not all that was ever said of it")

	// Whatever becomes of the claim, who has the volume has it.
	source.fail(errors.New("the server is away"))
	shown := b.inspect()
	assert.Equal(t, volumemanager.Mounted, shown[0].Volumes[0].State)
	assert.Equal(t, dir, shown[0].Volumes[0].Path)
	require.NoError(t, b.TearDownPod(t.Context(), p.UID))
	assert.DirExists(t, dir)
	b.requireEmpty()
}

func TestAVolumeThatHasNotGrownToWhatItsClaimAsksForIsServed(t *testing.T) {
	data, pv := claimNamed("data-0", "pv-1"), hostPathVolume("pv-1", t.TempDir())
	data.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse("2Gi")
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "data-0"}
	host := volume.Host{Root: t.TempDir(), Claims: newClaims(data, pv)}
	b := openRigWith(t, volumemanager.Options{}, host, plugins.Default()...)
	_, err := b.SetUpPod(t.Context(), pod("db", claim("data", "data-0")))
	require.NoError(t, err)
	require.NoError(t, b.TearDownPod(t.Context(), "uid-db"))
}

func TestAClaimThatCannotBeUsedYetIsPendingAndSaysWhy(t *testing.T) {
	bound := func(change func(*v1.PersistentVolumeClaim, *v1.PersistentVolume)) []any {
		c, pv := claimNamed("data-0", "pv-1"), hostPathVolume("pv-1", "/nowhere")
		change(c, pv)
		return []any{c, pv}
	}
	for name, test := range map[string]struct {
		objects []any
		says    string
	}{
		"no claim": {nil, "claim default/data-0 does not exist"},
		"not bound": {[]any{claimNamed("data-0", "")},
			"claim default/data-0 is not bound: it names no PersistentVolume, and no single one names it"},
		"no volume": {[]any{claimNamed("data-0", "pv-1")}, `claim default/data-0 names the PersistentVolume "pv-1", which does not exist`},
		"pending": {bound(func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Status.Phase = v1.ClaimPending }),
			"claim default/data-0 is not bound yet"},
		"lost": {bound(func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Status.Phase = v1.ClaimLost }),
			`claim default/data-0 has lost its volume "pv-1"`},
		"being deleted": {bound(func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.DeletionTimestamp = &metav1.Time{} }),
			"claim default/data-0 is being deleted"},
		"the volume is another claim's": {bound(func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
			pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "data-1"}
		}), `PersistentVolume "pv-1", which belongs to claim default/data-1`},
		"the volume is that of an earlier claim of the name": {bound(func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
			pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "data-0", UID: "uid-of-earlier-claim"}
		}), `UID "uid-of-earlier-claim"`},
		"bound, but the volume does not know": {bound(func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Status.Phase = v1.ClaimBound }),
			"which names no claim"},
		"what it asks for": {bound(func(c *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
			c.Spec.StorageClassName = ptr.To("fast")
			c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany}
			c.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse("2Gi")
			c.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
		}), `cannot be bound to PersistentVolume "pv-1": its storage class is "", not "fast"; its volumeMode is Filesystem, not Block; ` +
			`its access modes do not include ReadOnlyMany; its capacity is 1Gi, less than 2Gi`},
		"another node": {bound(func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
			pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{"node-b"}}}}}}}
		}), "cannot be reached from node node-a"},
	} {
		t.Run(name, func(t *testing.T) {
			host := volume.Host{Root: t.TempDir(), NodeName: "node-a", Claims: newClaims(test.objects...)}
			b := openRigWith(t, volumemanager.Options{}, host, plugins.Default()...)
			status, err := b.SetUpPod(t.Context(), pod("db", claim("data", "data-0"), emptyDir("cache")))
			require.ErrorContains(t, err, test.says)
			require.ErrorIs(t, err, volume.ErrNotFound)
			assert.Equal(t, volumemanager.Pending, status.Volumes[0].State)
			assert.Equal(t, volumemanager.Mounted, status.Volumes[1].State, "the other volume does not wait")
			require.NoError(t, b.TearDownPod(t.Context(), "uid-db"))
			b.requireEmpty()
		})
	}
}

func TestAClaimWithoutASourceOfClaimsIsRefused(t *testing.T) {
	b := newRig(t, plugins.Default()...)
	status, err := b.SetUpPod(t.Context(), pod("db", claim("data", "data-0")))
	require.ErrorIs(t, err, volume.ErrNotSupported)
	assert.ErrorContains(t, err, "the host has no source of claims")
	assert.Equal(t, volumemanager.Failed, status.Volumes[0].State)
}

func TestAVolumeThatCannotLeadToAClaimIsRefused(t *testing.T) {
	source := newClaims()
	b := openRigWith(t, volumemanager.Options{}, volume.Host{Root: t.TempDir(), Claims: source}, plugins.Default()...)
	template := v1.Volume{Name: "none", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}
	status, err := b.SetUpPod(t.Context(), pod("db", claim("empty", ""), claim("path", "../x"), template))
	require.ErrorIs(t, err, volume.ErrInvalid)
	assert.ErrorContains(t, err, `it names the claim ""`)
	assert.ErrorContains(t, err, `it names the claim "../x"`)
	assert.ErrorContains(t, err, "ephemeral has no volumeClaimTemplate")
	for _, v := range status.Volumes {
		assert.Equal(t, volumemanager.Failed, v.State)
	}
	assert.Zero(t, source.timesAsked())
	require.NoError(t, b.TearDownPod(t.Context(), "uid-db"))
	b.requireEmpty()
}

func TestAPodGetsItsVolumeWhenItsClaimIsBound(t *testing.T) {
	source := newClaims()
	b := openRigWith(t, volumemanager.Options{}, volume.Host{Root: t.TempDir(), Claims: source}, plugins.Default()...)
	events := b.Events(t.Context(), 100)
	b.run()
	require.NoError(t, b.SetPod(t.Context(), pod("db", claim("data", "data-0"))))
	next(t, events, hasFailed("data", volumemanager.OperationResolve))
	source.set(claimNamed("data-0", ""))
	next(t, events, hasFailed("data", volumemanager.OperationResolve))
	source.set(claimNamed("data-0", "pv-1"))
	next(t, events, hasFailed("data", volumemanager.OperationResolve))
	dir := t.TempDir()
	source.set(hostPathVolume("pv-1", dir))
	assert.Equal(t, dir, b.requireReady("uid-db").Volumes[0].Path)

	require.NoError(t, b.SetPods(t.Context(), nil))
	next(t, events, isRemoved("uid-db"))
	source.mu.Lock()
	defer source.mu.Unlock()
	assert.Empty(t, source.watchers)
}

func TestANewManagerKnowsWhatAClaimWasBoundTo(t *testing.T) {
	dir, root := t.TempDir(), t.TempDir()
	source := newClaims(claimNamed("data-0", "pv-1"), hostPathVolume("pv-1", dir))
	p := pod("db", claim("data", "data-0"))
	first := openRigWith(t, volumemanager.Options{}, volume.Host{Root: root, Claims: source}, plugins.Default()...)
	_, err := first.SetUpPod(t.Context(), p)
	require.NoError(t, err)
	require.NoError(t, first.Close())

	source.fail(errors.New("the server is away"))
	asked := source.timesAsked()
	second := openRigWith(t, volumemanager.Options{}, volume.Host{Root: root, Claims: source}, plugins.Default()...)
	events := second.Events(t.Context(), 100)
	second.run()
	require.NoError(t, second.SetPods(t.Context(), []*v1.Pod{p}))
	assert.Equal(t, dir, second.requireReady(p.UID).Volumes[0].Path)
	assert.Equal(t, asked, source.timesAsked())
	require.NoError(t, second.SetPods(t.Context(), nil))
	next(t, events, isRemoved(p.UID))
	second.requireEmpty()
}

func TestAVolumeThatCannotBeSetUpIsTakenFromItsClaimAnew(t *testing.T) {
	source := newClaims(claimNamed("data-0", "pv-1"), hostPathVolume("pv-1", "/does/not/exist"))
	b := openRigWith(t, volumemanager.Options{}, volume.Host{Root: t.TempDir(), Claims: source}, plugins.Default()...)
	p := pod("db", claim("data", "data-0"))
	_, err := b.SetUpPod(t.Context(), p)
	require.ErrorContains(t, err, "/does/not/exist")
	dir := t.TempDir()
	source.set(hostPathVolume("pv-1", dir))
	b.run()
	require.NoError(t, b.SetPod(t.Context(), p))
	assert.Equal(t, dir, b.requireReady(p.UID).Volumes[0].Path)
}

func TestAnEphemeralVolumeIsServedByTheClaimThatWasMadeForThePod(t *testing.T) {
	dir := t.TempDir()
	made := claimNamed("db-scratch", "pv-1")
	source := newClaims(made, hostPathVolume("pv-1", dir))
	b := openRigWith(t, volumemanager.Options{}, volume.Host{Root: t.TempDir(), Claims: source}, plugins.Default()...)
	p := pod("db", v1.Volume{Name: "scratch", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{}}}})
	_, err := b.SetUpPod(t.Context(), p)
	require.ErrorContains(t, err, "claim default/db-scratch is there, but was not made for this pod")

	owned := claimNamed("db-scratch", "pv-1")
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "db", UID: p.UID, Controller: ptr.To(true)}}
	source.set(owned)
	status, err := b.SetUpPod(t.Context(), p)
	require.NoError(t, err)
	assert.Equal(t, dir, status.Volumes[0].Path)
}

func TestReadOnlyComesFromThePodsClaim(t *testing.T) {
	source := newClaims(claimNamed("data-0", "pv-1"), hostPathVolume("pv-1", t.TempDir()))
	b := openRigWith(t, volumemanager.Options{}, volume.Host{Root: t.TempDir(), Claims: source}, plugins.Default()...)
	readOnly := claim("data", "data-0")
	readOnly.PersistentVolumeClaim.ReadOnly = true
	status, err := b.SetUpPod(t.Context(), pod("db", readOnly))
	require.NoError(t, err)
	assert.True(t, status.Containers[0].Mounts[0].ReadOnly)
}

func TestTheGroupThatAPersistentVolumeNamesIsTold(t *testing.T) {
	pv := hostPathVolume("pv-1", t.TempDir())
	pv.Annotations["pv.beta.kubernetes.io/gid"] = "1234"
	b := openRigWith(t, volumemanager.Options{}, volume.Host{Root: t.TempDir(), Claims: newClaims(claimNamed("data-0", "pv-1"), pv)}, plugins.Default()...)
	p := pod("db", claim("data", "data-0"))
	status, err := b.SetUpPod(t.Context(), p)
	require.NoError(t, err)
	assert.Equal(t, []int64{1234}, status.SupplementalGroups)
	p.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroups: []int64{1234}}
	status, err = b.SetUpPod(t.Context(), p)
	require.NoError(t, err)
	assert.Empty(t, status.SupplementalGroups, "the pod has it already")
}

func TestTwoVolumesOfAPodThatAreTheSameArePointedOut(t *testing.T) {
	source := newClaims(claimNamed("data-0", "pv-1"), hostPathVolume("pv-1", t.TempDir()))
	b := openRigWith(t, volumemanager.Options{}, volume.Host{Root: t.TempDir(), Claims: source}, plugins.Default()...)
	_, err := b.SetUpPod(t.Context(), pod("db", claim("data", "data-0"), claim("again", "data-0")))
	require.ErrorIs(t, err, volume.ErrNotSupported)
	assert.ErrorContains(t, err, "mount that one in both places")
}

func TestTheVolumesOfCloudsAreLookedForAsThoseOfTheirCSIDrivers(t *testing.T) {
	disk := hostPathVolume("pv-1", "")
	disk.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1", FSType: "ext4"}}
	source := newClaims(claimNamed("data-0", "pv-1"), disk)
	host := volume.Host{Root: t.TempDir(), Claims: source}
	inline := v1.Volume{Name: "inline", VolumeSource: v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-2"}}}

	b := openRigWith(t, volumemanager.Options{}, host, plugins.Default()...)
	_, err := b.SetUpPod(t.Context(), pod("db", claim("data", "data-0"), inline))
	require.ErrorIs(t, err, volume.ErrNotSupported)
	assert.ErrorContains(t, err, `volume "data" of pod default/db: source awsElasticBlockStore has become that of a CSI driver: source csi/ebs.csi.aws.com is not served here`)
	assert.ErrorContains(t, err, `volume "inline" of pod default/db: source awsElasticBlockStore has become that of a CSI driver`)
	require.NoError(t, b.TearDownPod(t.Context(), "uid-db"))
	require.NoError(t, b.Close())

	driver := &volumetest.FakePlugin{PluginName: "test/csi", Serves: []volume.Source{{Type: volume.SourceCSI, Driver: "ebs.csi.aws.com"}},
		Supports: func(s *volume.Spec) bool { return s.PersistentVolume.Spec.CSI.VolumeHandle == "vol-1" }}
	b = openRigWith(t, volumemanager.Options{}, host, driver)
	status, err := b.SetUpPod(t.Context(), pod("db", claim("data", "data-0")))
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(host.Root, "pods/uid-db/volumes/test~csi/pv-1"), status.Volumes[0].Path)
	require.NoError(t, b.TearDownPod(t.Context(), "uid-db"))
}

func TestWhatAPersistentVolumeAsksForInVainIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1.PersistentVolumeClaim, *v1.PersistentVolume)
		says   string
	}{
		"mount options": {func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) { pv.Spec.MountOptions = []string{"noatime"} },
			`PersistentVolume "pv-1" has mountOptions, which plugin kubernetes.io/host-path does not use`},
		"mount options of old": {func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
			pv.Annotations[v1.MountOptionAnnotation] = "noatime"
		}, "has mountOptions"},
		"a block device": {func(c *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
			c.Spec.VolumeMode, pv.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock), ptr.To(v1.PersistentVolumeBlock)
		}, `has the volumeMode Block, which plugin kubernetes.io/host-path does not serve`},
		"mount options of a block device": {func(c *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
			c.Spec.VolumeMode, pv.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock), ptr.To(v1.PersistentVolumeBlock)
			pv.Spec.MountOptions = []string{"noatime"}
		}, `has mountOptions, which a raw device (volumeMode Block) cannot have`},
	} {
		t.Run(name, func(t *testing.T) {
			c, pv := claimNamed("data-0", "pv-1"), hostPathVolume("pv-1", t.TempDir())
			test.change(c, pv)
			b := openRigWith(t, volumemanager.Options{}, volume.Host{Root: t.TempDir(), Claims: newClaims(c, pv)}, plugins.Default()...)
			status, err := b.SetUpPod(t.Context(), pod("db", claim("data", "data-0")))
			require.ErrorIs(t, err, volume.ErrNotSupported)
			assert.ErrorContains(t, err, test.says)
			assert.Equal(t, volumemanager.Failed, status.Volumes[0].State)
		})
	}
}

func TestAClaimThatIsLookedAtAgainDoesNotEndTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pv := hostPathVolume("pv-1", "")
		pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "test", VolumeHandle: "1"}}
		driver := &volumetest.FakePlugin{Serves: []volume.Source{{Type: volume.SourceCSI}}}
		driver.Inject(volumetest.SetUp, volumetest.Hooks{Before: volumetest.Fail(errors.New("out of luck"))})
		host := unmounted(t.TempDir())
		host.Claims = newClaims(claimNamed("data-0", "pv-1"), pv)
		b := openRigWith(t, volumemanager.Options{}, host, driver)
		b.run()
		require.NoError(t, b.SetPod(t.Context(), pod("db", claim("data", "data-0"))))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		tries := len(driver.CallsOf(volumetest.SetUp))
		assert.Less(t, tries, 14)
		assert.Greater(t, tries, 9)
	})
}
