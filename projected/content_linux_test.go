// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/objects"
	"github.com/volumekit/volumekit/volume"
)

// rig is a host with a store, and a pod.
type rig struct {
	t       *testing.T
	store   *objects.Store
	host    volume.Host
	plugins map[volume.SourceType]*Plugin
	pod     *v1.Pod
}

// newRig returns a rig whose volumes are on disk, which anybody may do.
func newRig(t *testing.T, initial ...func(*volume.Host)) *rig {
	t.Helper()
	r := &rig{t: t, store: objects.NewStore(), plugins: make(map[volume.SourceType]*Plugin), pod: &v1.Pod{}}
	host := r.store.Fill(volume.Host{Root: t.TempDir()})
	for _, f := range initial {
		f(&host)
	}
	var err error
	r.host, err = host.Complete()
	require.NoError(t, err)
	r.restart()
	r.pod.Namespace, r.pod.Name, r.pod.UID = "default", "web-0", "uid-web-0"
	return r
}

// restart makes the plugins forget all.
func (r *rig) restart() {
	for _, p := range New(Options{OnDisk: true}) {
		require.NoError(r.t, p.Init(r.t.Context(), r.host))
		r.plugins[p.(*Plugin).source] = p.(*Plugin)
	}
}

func (r *rig) mounter(source v1.VolumeSource) volume.Mounter {
	r.t.Helper()
	spec := specOf(source)
	m, err := r.plugins[spec.Source().Type].NewMounter(spec, r.pod)
	require.NoError(r.t, err)
	return m
}

func (r *rig) setUp(source v1.VolumeSource, options ...volume.SetUpOptions) (dir string) {
	r.t.Helper()
	m := r.mounter(source)
	require.NoError(r.t, m.SetUp(r.t.Context(), append(options, volume.SetUpOptions{})[0]))
	return m.Path()
}

// files returns the content of a volume's files by path, as a container sees it.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "..") {
			continue
		}
		start, err := filepath.EvalSymlinks(filepath.Join(dir, entry.Name()))
		require.NoError(t, err)
		require.NoError(t, filepath.WalkDir(start, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			found[entry.Name()+strings.TrimPrefix(path, start)] = string(data)
			return err
		}))
	}
	return found
}

func TestAVolumeHasTheFilesThatItsSourceNames(t *testing.T) {
	keys := func(items ...v1.KeyToPath) []v1.KeyToPath { return items }
	for name, test := range map[string]struct {
		source  v1.VolumeSource
		want    map[string]string
		missing bool
		says    string
	}{
		"all keys": {source: settings(), want: map[string]string{"a": "1", "b.conf": "2", "binary": "\x00\xff"}},
		"some keys": {source: settings(func(s *v1.ConfigMapVolumeSource) {
			s.Items = keys(v1.KeyToPath{Key: "a", Path: "x/y/a"}, v1.KeyToPath{Key: "binary", Path: "x/b"}, v1.KeyToPath{Key: "a", Path: "again"})
		}), want: map[string]string{"x/y/a": "1", "x/b": "\x00\xff", "again": "1"}},
		"a key that is not there": {source: settings(func(s *v1.ConfigMapVolumeSource) { s.Items = keys(v1.KeyToPath{Key: "c", Path: "c"}) }),
			missing: true, says: `ConfigMap default/settings has no key "c"`},
		"an optional key that is not there": {source: settings(func(s *v1.ConfigMapVolumeSource) {
			s.Optional, s.Items = ptr.To(true), keys(v1.KeyToPath{Key: "c", Path: "c"}, v1.KeyToPath{Key: "a", Path: "a"})
		}), want: map[string]string{"a": "1"}},
		"a file that is a directory too": {source: settings(func(s *v1.ConfigMapVolumeSource) {
			s.Items = keys(v1.KeyToPath{Key: "a", Path: "x"}, v1.KeyToPath{Key: "a", Path: "x/y"})
		}), says: `unusable path "x/y": "x" is a file`},
		"an object that is not there":          {source: settings(func(s *v1.ConfigMapVolumeSource) { s.Name = "other" }), missing: true, says: "ConfigMap default/other does not exist"},
		"an optional object that is not there": {source: settings(func(s *v1.ConfigMapVolumeSource) { s.Name, s.Optional = "other", ptr.To(true) }), want: map[string]string{}},
		"a secret":                             {source: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "credentials"}}, want: map[string]string{"password": canary}},
		"fields": {source: downwardFields("metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations",
			"metadata.labels['app']", "metadata.annotations['example.com/Note']", "metadata.labels['none']"), want: map[string]string{
			"0": "web-0", "1": "default", "2": "uid-web-0", "3": "app=\"web\"\ntier=\"front \\\"end\\\"\"", "4": `example.com/Note="line 1\nline 2"`,
			"5": "web", "6": "line 1\nline 2", "7": "",
		}},
		"resources": {source: downwardResources("1", "limits.cpu", "requests.cpu", "limits.memory", "requests.memory", "limits.ephemeral-storage", "requests.hugepages-2Mi"),
			want: map[string]string{"0": "2", "1": "1", "2": "134217728", "3": "67108864", "4": "1000", "5": "4194304"}},
		"resources in units": {source: downwardResources("1Mi", "limits.memory", "requests.memory"), want: map[string]string{"0": "128", "1": "64"}},
		"cpu in units":       {source: downwardResources("1m", "limits.cpu", "requests.cpu"), want: map[string]string{"0": "2000", "1": "250"}},
		"several sources": {source: projection(
			v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}}},
			v1.VolumeProjection{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "credentials"}, Items: keys(v1.KeyToPath{Key: "password", Path: "a"})}},
		), want: map[string]string{"a": canary, "b.conf": "2", "binary": "\x00\xff"}},
		"two things missing": {source: projection(
			v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "one"}}},
			v1.VolumeProjection{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "two"}}},
		), missing: true, says: "ConfigMap default/one does not exist\nSecret default/two does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(h *volume.Host) { h.NodeName = "node-a" })
			m := configMapOf(map[string]string{"a": "1", "b.conf": "2"})
			m.BinaryData = map[string][]byte{"binary": {0, 0xff}}
			node := &v1.Node{}
			node.Name = "node-a"
			node.Status.Allocatable = v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("1k")}
			require.NoError(t, r.store.Set(m, secretOf(map[string]string{"password": canary}), node))
			r.pod.Labels = map[string]string{"tier": `front "end"`, "app": "web"}
			r.pod.Annotations = map[string]string{"example.com/Note": "line 1\nline 2"}
			r.pod.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{
				Limits:   v1.ResourceList{v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("128Mi")},
				Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m"), v1.ResourceMemory: resource.MustParse("64Mi"), "hugepages-2Mi": resource.MustParse("4Mi")},
			}}}
			volumeMounter := r.mounter(test.source)
			err := volumeMounter.SetUp(t.Context(), volume.SetUpOptions{})
			if test.says != "" {
				require.EqualError(t, err, test.says)
				assert.Equal(t, test.missing, isNotFound(err))
				assert.NoDirExists(t, volumeMounter.Path(), "nothing was touched")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.want, files(t, volumeMounter.Path()))
		})
	}
}

func downwardFields(paths ...string) v1.VolumeSource {
	source := &v1.DownwardAPIVolumeSource{}
	for i, path := range paths {
		source.Items = append(source.Items, v1.DownwardAPIVolumeFile{Path: fmt.Sprint(i), FieldRef: &v1.ObjectFieldSelector{FieldPath: path}})
	}
	return v1.VolumeSource{DownwardAPI: source}
}

func downwardResources(divisor string, names ...string) v1.VolumeSource {
	source := &v1.DownwardAPIVolumeSource{}
	for i, name := range names {
		source.Items = append(source.Items, v1.DownwardAPIVolumeFile{Path: fmt.Sprint(i), ResourceFieldRef: &v1.ResourceFieldSelector{
			ContainerName: "main", Resource: name, Divisor: resource.MustParse(divisor)}})
	}
	return v1.VolumeSource{DownwardAPI: source}
}

func TestASourceThatTheHostDoesNotHaveIsNamed(t *testing.T) {
	for name, source := range map[string]v1.VolumeSource{
		"no source of ConfigMaps":             settings(),
		"no source of Secrets":                {Secret: &v1.SecretVolumeSource{SecretName: "credentials"}},
		"no source of service account tokens": projection(v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}}),
		"no source of them": projection(v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{
			Path: "ca", Name: ptr.To("bundle")}}),
		"no source of pod certificates": projection(v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{
			SignerName: "example.com/signer", KeyType: "ED25519", KeyPath: "key"}}),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(h *volume.Host) { *h = volume.Host{Root: h.Root} })
			err := r.mounter(source).SetUp(t.Context(), volume.SetUpOptions{})
			require.ErrorIs(t, err, volume.ErrNotSupported)
			assert.ErrorContains(t, err, name)
		})
	}
}

// configMaps is a source of ConfigMaps that checks nothing.
type configMaps map[string]string

func (c configMaps) ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	return &v1.ConfigMap{Data: c}, nil
}

func TestAKeyThatIsNoFileNameIsRefused(t *testing.T) {
	for _, key := range []string{"..data", "..", ".", "a/b", "../x", "a\x00b", ""} {
		t.Run(key, func(t *testing.T) {
			r := newRig(t, func(h *volume.Host) { h.ConfigMaps = configMaps{key: "x"} })
			m := r.mounter(settings())
			err := m.SetUp(t.Context(), volume.SetUpOptions{})
			require.ErrorIs(t, err, volume.ErrInvalid)
			assert.ErrorContains(t, err, fmt.Sprintf("ConfigMap default/settings has the key %q", key))
			assert.NoDirExists(t, m.Path())
		})
	}
}

// nothing is a source that breaks its contract.
type nothing struct{}

func (nothing) ConfigMap(context.Context, string, string) (*v1.ConfigMap, error) { return nil, nil }
func (nothing) Secret(context.Context, string, string) (*v1.Secret, error)       { return nil, nil }
func (nothing) Node(context.Context, types.NodeName) (*v1.Node, error)           { return nil, nil }

func TestASourceThatReturnsNothingIsNamed(t *testing.T) {
	for _, source := range []v1.VolumeSource{settings(), {Secret: &v1.SecretVolumeSource{SecretName: "credentials"}}, downwardResources("1", "limits.cpu")} {
		r := newRig(t, func(h *volume.Host) { h.ConfigMaps, h.Secrets, h.Nodes = nothing{}, nothing{}, nothing{} })
		r.pod.Spec.Containers = []v1.Container{{Name: "main"}}
		require.ErrorIs(t, r.mounter(source).SetUp(t.Context(), volume.SetUpOptions{}), errNothing)
	}
}

func TestWhoMayReadIsAsInKubernetes(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("not root: files cannot be given to others")
	}
	account := v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}}
	secret := v1.VolumeProjection{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "credentials"},
		Items: []v1.KeyToPath{{Key: "password", Path: "dir/password", Mode: ptr.To[int32](0o400)}, {Key: "password", Path: "plain"}, {Key: "password", Path: "own", User: ptr.To[int64](7)}}}}
	for name, test := range map[string]struct {
		group   *int64
		users   []*int64 // of the containers
		podUser *int64
		mode    *int32
		want    map[string]string
	}{
		"nothing said": {users: []*int64{nil}, want: map[string]string{"token": "-rw-r--r-- 0:0", "plain": "-rw-r--r-- 0:0", "dir/password": "-r-------- 0:0", "dir": "drwxr-xr-x 0:0", "own": "-rw-r--r-- 7:0"}},
		"fsGroup": {group: ptr.To[int64](2000), users: []*int64{nil}, want: map[string]string{"token": "-rw-r----- 0:2000", "plain": "-rw-r--r-- 0:2000",
			"dir/password": "-r--r----- 0:2000", "dir": "dgrwxr-xr-x 0:2000"}},
		"one user":             {users: []*int64{ptr.To[int64](1000), ptr.To[int64](1000)}, want: map[string]string{"token": "-rw------- 1000:0", "plain": "-rw-r--r-- 0:0"}},
		"the pod's user":       {users: []*int64{nil, ptr.To[int64](1000)}, podUser: ptr.To[int64](1000), want: map[string]string{"token": "-rw------- 1000:0"}},
		"several users":        {users: []*int64{ptr.To[int64](1000), ptr.To[int64](1001)}, want: map[string]string{"token": "-rw-r--r-- 0:0"}},
		"one says nothing":     {users: []*int64{ptr.To[int64](1000), nil}, want: map[string]string{"token": "-rw-r--r-- 0:0"}},
		"a mode":               {users: []*int64{nil}, mode: ptr.To[int32](0o440), want: map[string]string{"token": "-r--r----- 0:0", "plain": "-r--r----- 0:0", "dir/password": "-r-------- 0:0"}},
		"one user and fsGroup": {group: ptr.To[int64](2000), users: []*int64{ptr.To[int64](1000)}, want: map[string]string{"token": "-rw-r----- 1000:2000"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withTokens(t))
			require.NoError(t, r.store.Set(secretOf(map[string]string{"password": canary})))
			for i, user := range test.users {
				r.pod.Spec.Containers = append(r.pod.Spec.Containers, v1.Container{Name: fmt.Sprint("c", i), SecurityContext: &v1.SecurityContext{RunAsUser: user}})
			}
			r.pod.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: test.podUser}
			source := projection(account, secret)
			source.Projected.DefaultMode = test.mode
			dir := r.setUp(source, volume.SetUpOptions{FSGroup: test.group})
			for path, want := range test.want {
				assert.Equal(t, want, ownedMode(t, filepath.Join(dir, path)), path)
			}
			before := changeTimes(t, dir)
			r.restart()
			r.setUp(source, volume.SetUpOptions{FSGroup: test.group})
			assert.Equal(t, before, changeTimes(t, dir), "nothing is written that is there")
		})
	}
}

func TestOtherVolumesCanBeMountedInsideTheVolume(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.store.Set(configMapOf(map[string]string{"a": "1"})))
	r.pod.Spec.Containers = []v1.Container{{Name: "main", VolumeMounts: []v1.VolumeMount{
		{Name: "files", MountPath: "/etc/app"}, {Name: "cache", MountPath: "/etc/app/cache/"}, {Name: "a", MountPath: "/etc/app/a"},
		{Name: "deep", MountPath: "/etc/app/x/y"}, {Name: "beside", MountPath: "/etc/apple"}, {Name: "out", MountPath: "/etc/app/../out"}}}}
	dir := r.setUp(settings())
	assert.DirExists(t, filepath.Join(dir, "cache"))
	assert.DirExists(t, filepath.Join(dir, "x", "y"))
	assert.FileExists(t, filepath.Join(dir, "a"))
	require.NoError(t, r.store.Set(configMapOf(map[string]string{"b": "2"})))
	r.setUp(settings())
	assert.DirExists(t, filepath.Join(dir, "cache"), "they stay")
	assert.DirExists(t, filepath.Join(dir, "a"), "what is no file any more is mounted on all the same")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 6, "..data, its directory, a, b, cache and x")
}

func TestTheReferencesOfAVolumeAreWhatItsContentComesFrom(t *testing.T) {
	r := newRig(t)
	m := r.mounter(projection(
		v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "a"}}},
		v1.VolumeProjection{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "b"}}},
		v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: ptr.To("c"), Path: "c"}},
		v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{SignerName: ptr.To("example.com/signer"), Path: "d"}},
		v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
	)).(volume.Refresher)
	assert.Equal(t, []volume.Reference{
		{Kind: volume.KindConfigMap, Namespace: "default", Name: "a"},
		{Kind: volume.KindSecret, Namespace: "default", Name: "b"},
		{Kind: volume.KindClusterTrustBundle, Name: "c"},
		{Kind: volume.KindClusterTrustBundle},
	}, m.References())
}

func TestAVolumeCanBeLookedAtWithoutTheSourcesOfItsContent(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.store.Set(configMapOf(map[string]string{"a": "1"})))
	r.setUp(settings())
	r.host = volume.Host{Root: r.host.Root, Mounter: r.host.Mounter, Clock: r.host.Clock}
	r.restart()
	presence, err := r.mounter(settings()).Presence(t.Context())
	require.NoError(t, err)
	assert.Equal(t, volume.Present, presence)
	u, err := r.plugins[volume.SourceConfigMap].NewUnmounter("files", types.UID("uid-web-0"))
	require.NoError(t, err)
	require.NoError(t, u.TearDown(t.Context(), volume.TearDownOptions{}))
	assert.NoDirExists(t, u.Path())
}
