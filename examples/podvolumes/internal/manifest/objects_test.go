// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/examples/podvolumes/internal/manifest"
)

// objectNames are the objects as KIND NAMESPACE/NAME, with a star where a claim was made.
func objectNames(t *testing.T, result *manifest.Result) []string {
	t.Helper()
	var names []string
	for _, o := range result.Objects {
		object, err := meta.Accessor(o.Object)
		require.NoError(t, err)
		name := o.Object.GetObjectKind().GroupVersionKind().Kind + " " + object.GetNamespace() + "/" + object.GetName()
		if o.Made {
			name += "*"
		}
		names = append(names, name)
	}
	return names
}

func TestTheObjectsThatVolumesComeFromAreReturnedWithTheirPlaces(t *testing.T) {
	result := loadAll(t, `
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: v}}
---
{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: shop}, stringData: {k: v}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: a}, spec: {hostPath: {path: /a}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: a}, provisioner: x}
---
{apiVersion: certificates.k8s.io/v1, kind: ClusterTrustBundle, metadata: {name: a}, spec: {trustBundle: x}}
---
apiVersion: v1
kind: SecretList
items: [{metadata: {name: b}}]
---
apiVersion: storage.k8s.io/v1
kind: StorageClassList
items: [{metadata: {name: b}, provisioner: x}]
---
{apiVersion: v1, kind: Service, metadata: {name: a}}
---
{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: a}}
---
{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: a}}
---
{apiVersion: example.com/v1, kind: ConfigMap, metadata: {name: theirs}}
`)
	assert.Equal(t, []string{
		"ConfigMap default/a", "Secret shop/a", "PersistentVolume /a", "PersistentVolumeClaim default/a", "ServiceAccount default/a",
		"StorageClass /a", "ClusterTrustBundle /a", "Secret default/b", "StorageClass /b",
	}, objectNames(t, result))
	assert.Equal(t, "standard input: document 1 (line 2): ConfigMap default/a", result.Objects[0].Origin.String())
	assert.Equal(t, "standard input: document 3 (line 6): PersistentVolume a", result.Objects[2].Origin.String())
	assert.Equal(t, "standard input: document 9 (line 20), items[0]: StorageClass b", result.Objects[8].Origin.String())
	assert.Len(t, result.Ignored, 4)
	assert.Empty(t, result.Pods)
}

func TestObjectsAreReadAsStrictlyAsPods(t *testing.T) {
	for name, test := range map[string]struct{ text, says string }{
		"an unknown field of a ConfigMap":     {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nDATA: {}\n", `standard input: document 1 (line 1): ConfigMap default/a: unknown field "DATA" (line 4)`},
		"of a PersistentVolume":               {"apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: a}\nspec:\n  hostpath: {path: /a}\n", `standard input: document 1 (line 1): PersistentVolume a: unknown field "spec.hostpath" (line 5)`},
		"of a claim":                          {"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: a}\nspec:\n  resource: {}\n", `unknown field "spec.resource" (line 5)`},
		"of a ServiceAccount":                 {"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a}\nspec: {}\n", `unknown field "spec" (line 4)`},
		"of a StorageClass":                   {"apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: a}\nprovisoner: x\n", `unknown field "provisoner" (line 4)`},
		"of a ClusterTrustBundle":             {"apiVersion: certificates.k8s.io/v1\nkind: ClusterTrustBundle\nmetadata: {name: a}\nspec:\n  bundle: x\n", `unknown field "spec.bundle" (line 5)`},
		"a key that is there twice":           {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: a\n  k: b\n", `(line 6)`},
		"a number that is not quoted":         {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: 5\n", `field "data.k" is a number, must be text; quote it (line 5)`},
		"no name":                             {"apiVersion: v1\nkind: Secret\n", `field "metadata.name": is required`},
		"a namespace where the kind has none": {"apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: a, namespace: b}\n", `a PersistentVolume has no namespace`},
		"a version that is no more":           {"apiVersion: storage.k8s.io/v1beta1\nkind: StorageClass\nmetadata: {name: a}\n", `storage.k8s.io/v1`},
	} {
		t.Run(name, func(t *testing.T) {
			result, errs := load(t, test.text, manifest.Options{})
			require.Len(t, errs, 1)
			assert.Contains(t, errs[0], test.says)
			assert.Empty(t, result.Objects)
		})
	}
}

func TestNoErrorTellsWhatASecretHolds(t *testing.T) {
	const secret = "12345678"
	for _, fields := range []string{
		"data: {k: 12345678}", "data: {k: '*12345678'}", "stringData: {k: 12345678}", "stringData: 12345678", "data: [12345678]",
		"stringData: {k: a, k: 12345678}", "stringData: {k: {a: 12345678}}", "immutable: 12345678",
		"stringData:\n  k: 12345678: x", "stringData: {k: *12345678}", "stringData: {k: !!int 12345678x}", "stringData: {k: \"\\q12345678\"}",
		"stringData:\n  k: |\n    a\n 12345678",
	} {
		_, errs := load(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n"+fields+"\n", manifest.Options{})
		assert.NotEmpty(t, errs, fields)
		assert.NotContains(t, strings.Join(errs, "\n"), secret, fields)
	}
}

func TestOneObjectInTwoPlacesIsAnErrorThatNamesBoth(t *testing.T) {
	const a = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n"
	result, errs := load(t, a+a+strings.Replace(a, "ConfigMap", "Secret", 1)+strings.Replace(a, "name: a", "name: a, namespace: b", 1), manifest.Options{})
	assert.Equal(t, []string{
		"standard input: document 2 (line 3): ConfigMap default/a: it is there already, from standard input: document 1 (line 1): ConfigMap default/a",
	}, errs)
	assert.Equal(t, []string{"ConfigMap default/a", "Secret default/a", "ConfigMap b/a"}, objectNames(t, result))
}

func TestPodsOfAStatefulSetHaveTheClaimsThatAClusterWouldMake(t *testing.T) {
	result := loadAll(t, object("apps/v1", "StatefulSet", "db", `{replicas: 3, ordinals: {start: 1}, selector: {matchLabels: {app: db}}, TEMPLATE,
  volumeClaimTemplates: [{metadata: {name: data, labels: {app: other, tier: back}, annotations: {a: b}}, spec: {storageClassName: fast}}, {metadata: {name: log}}]}`)+`
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data-db-2}, spec: {volumeName: own}}
`)
	assert.Equal(t, []string{
		"PersistentVolumeClaim default/data-db-2",
		"PersistentVolumeClaim default/data-db-1*", "PersistentVolumeClaim default/log-db-1*",
		"PersistentVolumeClaim default/log-db-2*",
		"PersistentVolumeClaim default/data-db-3*", "PersistentVolumeClaim default/log-db-3*",
	}, objectNames(t, result))
	claim := result.Objects[1].Object.(*v1.PersistentVolumeClaim)
	assert.Equal(t, map[string]string{"app": "db", "tier": "back"}, claim.Labels)
	assert.Equal(t, map[string]string{"a": "b"}, claim.Annotations)
	assert.Equal(t, "fast", *claim.Spec.StorageClassName)
	assert.Empty(t, claim.OwnerReferences)
	assert.Equal(t, result.Pods[0].Origin, result.Objects[1].Origin)
}

func TestAnEphemeralVolumeHasAClaimThatThePodOwns(t *testing.T) {
	result := loadAll(t, `
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, uid: web-uid}
spec:
  containers: [{name: c}]
  volumes:
    - name: scratch
      ephemeral: {volumeClaimTemplate: {metadata: {labels: {app: web}, annotations: {a: b}}, spec: {storageClassName: fast}}}
    - name: other
      ephemeral: {volumeClaimTemplate: {spec: {storageClassName: fast}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: web-other, namespace: shop}}
`)
	assert.Equal(t, []string{"PersistentVolumeClaim shop/web-other", "PersistentVolumeClaim shop/web-scratch*"}, objectNames(t, result))
	claim := result.Objects[1].Object.(*v1.PersistentVolumeClaim)
	assert.Equal(t, []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Pod", Name: "web", UID: "web-uid", Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}}, claim.OwnerReferences)
	assert.Equal(t, map[string]string{"app": "web"}, claim.Labels)
	assert.Equal(t, map[string]string{"a": "b"}, claim.Annotations)
	assert.Equal(t, "fast", *claim.Spec.StorageClassName)
}

func TestClaimsAreNotMadeWithoutLimit(t *testing.T) {
	templates := strings.Repeat("{metadata: {name: v}},", 21)
	_, errs := load(t, object("apps/v1", "StatefulSet", "db", "{replicas: 2, TEMPLATE, volumeClaimTemplates: ["+templates+"]}"), manifest.Options{MaxPods: 4})
	require.Len(t, errs, 1)
	assert.Contains(t, errs[0], "makes 42 claims, more than the limit of 40")

	var volumes strings.Builder
	for i := range 21 {
		fmt.Fprintf(&volumes, "{name: v%d, ephemeral: {volumeClaimTemplate: {spec: {}}}},", i)
	}
	pods := object("apps/v1", "Deployment", "db", "{replicas: 2, template: {spec: {containers: [{name: c}], volumes: ["+volumes.String()+"]}}}")
	result, errs := load(t, pods, manifest.Options{MaxPods: 4})
	require.Len(t, errs, 1)
	assert.Contains(t, errs[0], "Deployment default/db: its claims are more than the limit of 40: no more are made")
	assert.Len(t, result.Objects, 40)
}

func TestRealManifestsHoldWhatTheirVolumesComeFrom(t *testing.T) {
	for file, want := range map[string][]string{
		"testdata/database.yaml": {
			"ConfigMap data/db-config",
			"PersistentVolumeClaim data/data-db-0*", "PersistentVolumeClaim data/data-db-1*", "PersistentVolumeClaim data/data-db-2*",
		},
		"testdata/webserver.yaml": {"ServiceAccount default/web"},
	} {
		result, errs := manifest.Load(t.Context(), []string{file}, manifest.Options{})
		require.Empty(t, errs)
		assert.Equal(t, want, objectNames(t, result))
	}
}
