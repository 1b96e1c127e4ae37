// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/volume"
)

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func secret(name, value string) *v1.Secret {
	return &v1.Secret{ObjectMeta: meta("shop", name), Data: map[string][]byte{"key": []byte(value)}}
}

func TestEveryKindIsFoundByItsName(t *testing.T) {
	s, ctx := NewStore(), t.Context()
	require.NoError(t, s.Set(
		secret("db", "hush"),
		&v1.ConfigMap{ObjectMeta: meta("shop", "settings")},
		&v1.PersistentVolume{ObjectMeta: meta("", "pv")},
		&v1.PersistentVolumeClaim{ObjectMeta: meta("shop", "claim")},
		&v1.Node{ObjectMeta: meta("", "node-1")},
		&v1.ServiceAccount{ObjectMeta: meta("shop", "robot")},
		&storagev1.StorageClass{ObjectMeta: meta("", "fast")},
		&certificatesv1.ClusterTrustBundle{ObjectMeta: meta("", "roots")},
	))
	finders := map[string]func(namespace, name string) (metav1.Object, error){
		"Secret db":          func(ns, name string) (metav1.Object, error) { return s.Secret(ctx, ns, name) },
		"ConfigMap settings": func(ns, name string) (metav1.Object, error) { return s.ConfigMap(ctx, ns, name) },
		"PersistentVolumeClaim claim": func(ns, name string) (metav1.Object, error) {
			return s.PersistentVolumeClaim(ctx, ns, name)
		},
		"ServiceAccount robot":     func(ns, name string) (metav1.Object, error) { return s.ServiceAccount(ctx, ns, name) },
		"PersistentVolume pv":      func(_, name string) (metav1.Object, error) { return s.PersistentVolume(ctx, name) },
		"Node node-1":              func(_, name string) (metav1.Object, error) { return s.Node(ctx, types.NodeName(name)) },
		"StorageClass fast":        func(_, name string) (metav1.Object, error) { return s.StorageClass(ctx, name) },
		"ClusterTrustBundle roots": func(_, name string) (metav1.Object, error) { return s.ClusterTrustBundle(ctx, name) },
	}
	for of, find := range finders {
		t.Run(of, func(t *testing.T) {
			kind, name, _ := strings.Cut(of, " ")
			found, err := find("shop", name)
			require.NoError(t, err)
			assert.Equal(t, name, found.GetName())
			_, err = find("shop", "other")
			require.ErrorIs(t, err, volume.ErrNotFound)
			assert.ErrorContains(t, err, kind+" ")
			assert.ErrorContains(t, err, "other")
			if isNamespaced(volume.ObjectKind(kind)) {
				_, err = find("office", name)
				require.ErrorIs(t, err, volume.ErrNotFound)
				assert.ErrorContains(t, err, kind+" office/"+name)
			}
		})
	}
}

func TestWhatWasSetIsNoLongerTheCallers(t *testing.T) {
	s := NewStore()
	mine := secret("db", "hush")
	require.NoError(t, s.Set(mine))
	mine.Data["key"][0] = 'X'
	found, err := s.Secret(t.Context(), "shop", "db")
	require.NoError(t, err)
	assert.Equal(t, "hush", string(found.Data["key"]))
}

func TestStringDataIsMergedOverData(t *testing.T) {
	s := NewStore()
	require.NoError(t, s.Set(
		&v1.Secret{ObjectMeta: meta("shop", "both"), Data: map[string][]byte{"a": []byte("1"), "b": []byte("2")}, StringData: map[string]string{"b": "3", "c": "4"}},
		&v1.Secret{ObjectMeta: meta("shop", "text"), StringData: map[string]string{"c": "4"}},
	))
	both, err := s.Secret(t.Context(), "shop", "both")
	require.NoError(t, err)
	assert.Equal(t, map[string][]byte{"a": []byte("1"), "b": []byte("3"), "c": []byte("4")}, both.Data)
	assert.Empty(t, both.StringData)
	text, err := s.Secret(t.Context(), "shop", "text")
	require.NoError(t, err)
	assert.Equal(t, map[string][]byte{"c": []byte("4")}, text.Data)
}

func TestWhatAnAPIServerRefusesIsRefusedByName(t *testing.T) {
	for name, test := range map[string]struct {
		object runtime.Object
		want   []string
	}{
		"a name in capitals":       {&v1.Secret{ObjectMeta: meta("shop", "DB")}, []string{"Secret shop/DB", "metadata.name", "lower case"}},
		"a name with a slash":      {&v1.ConfigMap{ObjectMeta: meta("shop", "../x")}, []string{"ConfigMap shop/../x", "metadata.name"}},
		"no name":                  {&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", GenerateName: "x-"}}, []string{`Secret "shop/"`, "no name"}},
		"no namespace":             {&v1.PersistentVolumeClaim{ObjectMeta: meta("", "claim")}, []string{"PersistentVolumeClaim claim", "metadata.namespace", "Required"}},
		"a namespace with a dot":   {&v1.Secret{ObjectMeta: meta("a.b", "x")}, []string{"metadata.namespace"}},
		"a volume in a namespace":  {&v1.PersistentVolume{ObjectMeta: meta("shop", "pv")}, []string{"PersistentVolume shop/pv", "not allowed on this type"}},
		"a label that is none":     {&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a b": ""}}}, []string{"Node n", "metadata.labels"}},
		"a key of a secret":        {&v1.Secret{ObjectMeta: meta("shop", "x"), StringData: map[string]string{"../k": "hush"}}, []string{"Secret shop/x", `"../k"`}},
		"a key of a config map":    {&v1.ConfigMap{ObjectMeta: meta("shop", "x"), Data: map[string]string{"a/b": "hush"}}, []string{"ConfigMap shop/x", `"a/b"`}},
		"a binary key":             {&v1.ConfigMap{ObjectMeta: meta("shop", "x"), BinaryData: map[string][]byte{"..": nil}}, []string{`".."`}},
		"a key twice":              {&v1.ConfigMap{ObjectMeta: meta("shop", "x"), Data: map[string]string{"k": ""}, BinaryData: map[string][]byte{"k": nil}}, []string{`"k" is in both`}},
		"a secret that is too big": {&v1.Secret{ObjectMeta: meta("shop", "x"), Data: map[string][]byte{"k": make([]byte, 1<<20+1)}}, []string{"1048577 bytes"}},
		"half a claimRef":          {&v1.PersistentVolume{ObjectMeta: meta("", "pv"), Spec: v1.PersistentVolumeSpec{ClaimRef: &v1.ObjectReference{Name: "c"}}}, []string{"PersistentVolume pv", "spec.claimRef"}},
		"a bundle that is named for another signer": {
			&certificatesv1.ClusterTrustBundle{ObjectMeta: meta("", "x"), Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: "example.com/ca"}},
			[]string{"ClusterTrustBundle x", `"example.com:ca:"`},
		},
		"a bundle without a signer that is named for one": {&certificatesv1.ClusterTrustBundle{ObjectMeta: meta("", "a:b:c")}, []string{"ClusterTrustBundle a:b:c"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStore()
			require.NoError(t, s.Set(secret("stays", "1")))
			for what, err := range map[string]error{"Set": s.Set(secret("new", "1"), test.object), "Replace": s.Replace(secret("new", "1"), test.object)} {
				require.ErrorIs(t, err, volume.ErrInvalid, what)
				for _, want := range test.want {
					assert.ErrorContains(t, err, want, what)
				}
				assert.NotContains(t, err.Error(), "hush", what)
			}
			_, err := s.Secret(t.Context(), "shop", "new")
			require.ErrorIs(t, err, volume.ErrNotFound, "half of what was refused was taken")
			_, err = s.Secret(t.Context(), "shop", "stays")
			require.NoError(t, err)
		})
	}
}

func TestAKindThatIsNotHeldIsNamed(t *testing.T) {
	s := NewStore()
	pod := &v1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: meta("shop", "x")}
	for want, object := range map[string]runtime.Object{"Pod of v1": pod, "*v1.Service": &v1.Service{}, "*v1.Secret": (*v1.Secret)(nil), "<nil>": nil} {
		err := s.Set(object)
		require.ErrorIs(t, err, volume.ErrNotSupported)
		assert.ErrorContains(t, err, want)
		s.Remove(object)
	}
}

func TestWhatIsImmutableIsRemovedBeforeItIsChanged(t *testing.T) {
	frozen := func(value string) *v1.Secret {
		s := secret("db", value)
		s.Immutable = ptr.To(true)
		return s
	}
	frozenMap := func(value string, uid types.UID) *v1.ConfigMap {
		return &v1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings", UID: uid}, Immutable: ptr.To(true), Data: map[string]string{"key": value},
		}
	}
	s := NewStore()
	require.NoError(t, s.Set(frozen("hush"), frozenMap("hush", "1")))
	for name, object := range map[string]runtime.Object{
		"other values":           frozen("quiet"),
		"no longer immutable":    secret("db", "hush"),
		"a config map":           frozenMap("quiet", "1"),
		"a config map of no UID": frozenMap("quiet", ""),
	} {
		for _, err := range []error{s.Set(object), s.Replace(object)} {
			require.ErrorIs(t, err, volume.ErrInvalid, name)
			assert.ErrorContains(t, err, "immutable", name)
			assert.NotContains(t, err.Error(), "quiet", name)
		}
	}
	labelled := frozen("hush")
	labelled.Labels = map[string]string{"a": "b"}
	require.NoError(t, s.Set(labelled), "metadata may change")
	require.NoError(t, s.Set(frozenMap("quiet", "2")), "another object of that name")
	s.Remove(frozen(""))
	require.NoError(t, s.Set(frozen("quiet")))
}

func TestBundlesAreFoundBySignerAndLabels(t *testing.T) {
	s := NewStore()
	bundle := func(signer, name string, set labels.Set) *certificatesv1.ClusterTrustBundle {
		if signer != "" {
			name = strings.ReplaceAll(signer, "/", ":") + ":" + name
		}
		return &certificatesv1.ClusterTrustBundle{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: set}, Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer},
		}
	}
	names := func(signer string, selector labels.Selector) []string {
		bundles, err := s.ClusterTrustBundles(t.Context(), signer, selector)
		require.NoError(t, err)
		found := []string{}
		for _, b := range bundles {
			found = append(found, b.Name)
		}
		return found
	}
	require.NoError(t, s.Set(
		bundle("example.com/a", "old", labels.Set{"age": "old"}), bundle("example.com/a", "new", labels.Set{"age": "new"}), bundle("example.com/b", "new", labels.Set{"age": "new"}),
		bundle("", "free", nil),
	))
	assert.ElementsMatch(t, []string{"example.com:a:old", "example.com:a:new"}, names("example.com/a", labels.Everything()))
	assert.ElementsMatch(t, []string{"example.com:a:new"}, names("example.com/a", labels.SelectorFromSet(labels.Set{"age": "new"})))
	assert.Empty(t, names("example.com/a", labels.Nothing()))
	assert.Empty(t, names("example.com/a", nil))
	assert.Equal(t, []string{"free"}, names("", labels.Everything()))
	require.NoError(t, s.Replace(bundle("example.com/b", "new", nil)))
	assert.Empty(t, names("example.com/a", labels.Everything()))
	assert.Empty(t, names("example.com/b", labels.SelectorFromSet(labels.Set{"age": "new"})))
	assert.Len(t, names("example.com/b", labels.Everything()), 1)
}

func TestAStoreFillsInWhatAHostHasNot(t *testing.T) {
	s, other := NewStore(), NewStore()
	host := s.Fill(volume.Host{Root: "/r", Secrets: other})
	assert.Same(t, other, host.Secrets)
	for _, source := range []any{host.ConfigMaps, host.TrustBundles, host.Claims, host.Nodes} {
		assert.Same(t, s, source)
	}
	assert.Nil(t, host.Tokens)
	assert.Nil(t, host.PodCertificates)
	assert.Equal(t, "/r", host.Root)
}
