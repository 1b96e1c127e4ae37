// SPDX-License-Identifier: Apache-2.0

package directory

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/volume"
)

func TestAFileHoldsObjectsOfEveryForm(t *testing.T) {
	for name, test := range map[string]struct {
		content string
		want    []string
		ignored int
	}{
		"several documents": {"# all\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: a}\n---   # next\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: shop}\n...\n---\n", []string{"Secret default/a", "ConfigMap shop/b"}, 0},
		"JSON values":       {"{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\n\t\"metadata\":{\"name\":\"a\"}}\n{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n\"}}", []string{"Secret default/a", "Node n"}, 0},
		"flow YAML":         {"{apiVersion: v1, kind: Secret, metadata: {name: a}}", []string{"Secret default/a"}, 0},
		"a List":            {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: s}, provisioner: x}\n- {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv}}]}\n", []string{"StorageClass s", "PersistentVolume pv"}, 0},
		"a SecretList":      {"apiVersion: v1\nkind: SecretList\nmetadata: {resourceVersion: \"7\"}\nitems:\n- metadata: {name: a}\n- {apiVersion: v1, kind: Secret, metadata: {name: b}}\n", []string{"Secret default/a", "Secret default/b"}, 0},
		"other kinds":       {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {strange: 1}\n---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: robot}\n---\napiVersion: certificates.k8s.io/v1beta1\nkind: ClusterTrustBundle\nmetadata: {name: b}\n", []string{"ServiceAccount default/robot"}, 2},
		"the rest":          {"apiVersion: certificates.k8s.io/v1\nkind: ClusterTrustBundle\nmetadata: {name: b}\nspec: {trustBundle: x}\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\n", []string{"ClusterTrustBundle b", "PersistentVolumeClaim default/c"}, 0},
		"comments":          {"# nothing yet\n", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			manifests, ignored, faults := decode("f.yaml", []byte("\ufeff"+test.content), "default")
			require.Empty(t, faults)
			var found []string
			for _, m := range manifests {
				found = append(found, m.key.String())
			}
			assert.Equal(t, test.want, found)
			assert.Len(t, ignored, test.ignored)
			for _, err := range ignored {
				assert.ErrorIs(t, err, volume.ErrNotSupported)
			}
		})
	}
}

func TestWhatDoesNotFitIsNamedAndNoValueShown(t *testing.T) {
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: db, namespace: shop}\n"
	for name, test := range map[string]struct {
		content string
		want    []string
	}{
		"an unknown field":      {secret + "spec: {a: hush}\n", []string{"f.yaml: document 1: Secret shop/db", `unknown field "spec"`}},
		"two unknown fields":    {secret + "metadate: 1\nstringdata: {a: hush}\n", []string{`unknown field "metadate"`, `unknown field "stringdata"`}},
		"in the second one":     {"---\n" + secret + "---\n" + secret + "typ: x\n", []string{"document 2"}},
		"in a list":             {"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n  dada: {}\n", []string{"List: items[0]: ConfigMap a", `"dada"`}},
		"a field twice":         {secret + "data: {a: aHVzaA==, a: aHVzaA==}\n", []string{"document 1", `"a" already set`}},
		"a field twice in JSON": {`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":{"a":"","a":""}}`, []string{`duplicate field "data.a"`}},
		"a number for text":     {secret + "stringData: {pin: 4711}\n", []string{"stringData"}},
		"no base64":             {secret + "data: {a: \"hush!\"}\n", []string{"illegal base64"}},
		"not YAML":              {secret + "stringData:\n  a: \"hush\n", []string{"document 1", "not valid YAML"}},
		"an alias":              {secret + "stringData:\n  a: *hush\n", []string{"in quotes"}},
		"a map as a key":        {secret + "stringData:\n  {hush: hush}: a\n", []string{"a key of a mapping"}},
		"half of JSON":          {`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"stringData":{"a":"hu`, []string{"document 1"}},
		"no kind":               {"apiVersion: v1\nmetadata: {name: hush}\n", []string{"both apiVersion and kind"}},
		"no object":             {"- hush\n", []string{"not an object"}},
		"text":                  {"hush\n", []string{"not an object"}},
		"behind a marker":       {secret + "...\n" + secret, []string{`behind "..."`}},
		"a marker with text":    {secret + "---hush\n" + secret, []string{`"---" has to stand alone`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, faults := decode("f.yaml", []byte(test.content), "default")
			require.NotEmpty(t, faults)
			text := fmt.Sprint(faults)
			for _, want := range test.want {
				assert.Contains(t, text, want)
			}
			for _, fault := range faults {
				assert.ErrorIs(t, fault, volume.ErrInvalid)
			}
			assert.NotContains(t, text, "hush")
			assert.NotContains(t, text, "4711")
			assert.NotContains(t, text, "aHVzaA")
		})
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n", "{}", "---\n", "...\n", "- a", "kind: List\nitems: [1]", "{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[{}]}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		manifests, _, _ := decode("f", content, "default")
		check("f", manifests)
	})
}
