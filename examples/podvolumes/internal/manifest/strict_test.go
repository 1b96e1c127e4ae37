// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/volumekit/volumekit/examples/podvolumes/internal/manifest"
)

// deployment is a manifest into whose template more is put, indented by six spaces.
func deployment(more string) string {
	return `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  template:
    spec:
      containers:
      - name: c
        image: i
` + more
}

func TestEachFaultInAnObjectIsNamedByFieldAndLine(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"an unknown field": {
			deployment("      volumes:\n      - name: v\n        emptydir: {}\n"),
			[]string{`unknown field "spec.template.spec.volumes[0].emptydir" (line 13)`},
		},
		"an unknown field of a volume's source": {
			deployment("      volumes:\n      - name: v\n        emptyDir: {}\n      - name: w\n        hostPath: {path: /x, kind: Directory}\n"),
			[]string{`unknown field "spec.template.spec.volumes[1].hostPath.kind" (line 15)`},
		},
		"several faults": {
			deployment("        volumemounts: []\n      volume: []\n  replica: 3\n"),
			[]string{
				`unknown field "spec.template.spec.containers[0].volumemounts" (line 11)`,
				`unknown field "spec.template.spec.volume" (line 12)`,
				`unknown field "spec.replica" (line 13)`,
			},
		},
		"a repeated key": {
			deployment("      volumes:\n      - name: v\n        emptyDir: {}\n        name: w\n"),
			[]string{`duplicate field "spec.template.spec.volumes[0].name" (line 14)`},
		},
		"a repeated key and an unknown one": {
			deployment("      volumes:\n      - name: v\n        foo: {}\n        name: w\n"),
			[]string{`unknown field "spec.template.spec.volumes[0].foo" (line 13)`, `duplicate field "spec.template.spec.volumes[0].name" (line 14)`},
		},
		"a repeated label, one spelt as a number": {
			"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels:\n    1: a\n    \"1\": b\nspec:\n  containers: [{name: c}]\n",
			[]string{`duplicate field "metadata.labels.1" (line 7)`},
		},
		"a repeated label in two spellings of true": {
			"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels:\n    yes: a\n    y: b\nspec:\n  containers: [{name: c}]\n",
			[]string{`duplicate field "metadata.labels.true" (line 7)`},
		},
		"a repeated label in two spellings of a number": {
			"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels:\n    16: a\n    !!int 0x10: b\nspec:\n  containers: [{name: c}]\n",
			[]string{`duplicate field "metadata.labels.16" (line 7)`},
		},
		"a repeated key in JSON": {
			"{\"apiVersion\": \"v1\", \"kind\": \"Pod\",\n\"metadata\": {\"name\": \"a\"},\n\"spec\": {\"containers\": [{\"name\": \"c\",\n\"name\": \"d\"}]}}",
			[]string{`duplicate field "spec.containers[0].name" (line 4)`},
		},
		"an unknown field in JSON": {
			"{\"apiVersion\": \"v1\", \"kind\": \"Pod\",\n\"metadata\": {\"name\": \"a\"},\n\"spec\": {\"containers\": [{\"name\": \"c\",\n\t\"nome\": \"d\"}]}}",
			[]string{`unknown field "spec.containers[0].nome" (line 4)`},
		},
		"a number where text belongs": {
			deployment("        env: [{name: PORT, value: 5432}]\n"),
			[]string{`field "spec.template.spec.containers[0].env[0].value" is a number, must be text; quote it (line 11)`},
		},
		"a boolean where text belongs": {
			deployment("        env: [{name: DEBUG, value: yes}]\n"),
			[]string{`field "spec.template.spec.containers[0].env[0].value" is a boolean, must be text; quote it (line 11)`},
		},
		"a number among labels": {
			"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels:\n    app: x\n    app.kubernetes.io/version: 2\nspec:\n  containers: [{name: c}]\n",
			[]string{`field "metadata.labels.app.kubernetes.io/version" is a number, must be text; quote it (line 7)`},
		},
		"values of each wrong type": {
			deployment("        ports: 80\n        stdin: \"yes\"\n        resources: [cpu]\n        lifecycle: true\n        volumeMounts:\n        - name: v\n          readOnly: 1\n      terminationGracePeriodSeconds: 1.5\n      hostNetwork: text\n  replicas: many\n"),
			[]string{
				`field "spec.template.spec.containers[0].ports" is a number, must be a list (line 11)`,
				`field "spec.template.spec.containers[0].stdin" is text, must be a boolean (line 12)`,
				`field "spec.template.spec.containers[0].resources" is a list, must be a mapping (line 13)`,
				`field "spec.template.spec.containers[0].lifecycle" is a boolean, must be a mapping (line 14)`,
				`field "spec.template.spec.containers[0].volumeMounts[0].readOnly" is a number, must be a boolean (line 17)`,
				`field "spec.template.spec.terminationGracePeriodSeconds" is the number 1.5, must be a whole number (int64) (line 18)`,
				`field "spec.template.spec.hostNetwork" is text, must be a boolean (line 19)`,
				`field "spec.replicas" is text, must be a whole number (int32) (line 20)`,
			},
		},
		"a quantity that is none, and a number that is too big": {
			deployment("      volumes:\n      - name: v\n        emptyDir:\n          sizeLimit: 1 GB\n  replicas: 3000000000\n"),
			[]string{
				`field "spec.template.spec.volumes[0].emptyDir.sizeLimit": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$' (line 14)`,
				`field "spec.replicas" is the number 3000000000, must be a whole number (int32) (line 15)`,
			},
		},
		"a mapping where a quantity belongs": {
			deployment("      volumes:\n      - name: v\n        emptyDir:\n          sizeLimit: {a: b}\n"),
			[]string{`field "spec.template.spec.volumes[0].emptyDir.sizeLimit": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$' (line 14)`},
		},
		"a fault in what an alias leads to": {
			deployment("      volumes:\n      - &v {name: v, emptydir: {}}\n      - *v\n"),
			[]string{
				`unknown field "spec.template.spec.volumes[0].emptydir" (line 12)`,
				`unknown field "spec.template.spec.volumes[1].emptydir" (line 13)`,
			},
		},
		"no template": {
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 2}\n",
			[]string{`field "spec.template.spec.containers": a pod needs at least one`},
		},
		"no template where it may be absent": {
			"apiVersion: v1\nkind: ReplicationController\nmetadata: {name: web}\n",
			[]string{`field "spec.template": is required`},
		},
		"no container": {
			"apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n",
			[]string{`field "spec.containers": a pod needs at least one`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			result, errs := load(t, test.text, manifest.Options{})
			assert.Empty(t, result.Pods)
			require.Len(t, errs, len(test.want), "%s", strings.Join(errs, "\n"))
			for i, want := range test.want {
				assert.True(t, strings.HasSuffix(errs[i], ": "+want), "%s\nends in\n%s", errs[i], want)
				assert.Contains(t, errs[i], "standard input: document 1 (line 1):")
			}
		})
	}
}

func TestAFaultNamesFileDocumentKindNamespaceAndName(t *testing.T) {
	_, errs := load(t, "---\n# a comment\n---\n"+deployment("  foo: bar\n"), manifest.Options{})
	assert.Equal(t, []string{`standard input: document 1 (line 4): Deployment default/web: unknown field "spec.foo" (line 14)`}, errs)
}

func TestAKeyThatOverridesAMergedOneIsNoRepetition(t *testing.T) {
	result := loadAll(t, deployment("        env:\n        - &e {name: A}\n        - &f {value: a}\n        - {<<: *e, <<: *f, value: b}\n"))
	env := result.Pods[0].Pod.Spec.Containers[0].Env[2]
	assert.Equal(t, "A", env.Name)
	assert.Equal(t, "b", env.Value)
}

func TestObjectsThatMakeNoPodsAreNotHeldToTheirFields(t *testing.T) {
	result := loadAll(t, `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {a: b, a: c}, unknown: 5}
---
apiVersion: example.com/v1
kind: Deployment
metadata: {name: "not/a name for us"}
spec: 12
---
apiVersion: extensions/v1beta1
kind: Ingress
metadata: {name: old}
---
apiVersion: apps/v1
kind: ControllerRevision
`)
	assert.Empty(t, result.Pods)
	assert.Equal(t, []string{
		"standard input: document 1 (line 2): Service shop/web is of no kind that makes pods or volumes",
		"standard input: document 2 (line 7): Deployment not/a name for us is of no kind that makes pods or volumes",
		"standard input: document 3 (line 12): Ingress old is of no kind that makes pods or volumes",
		"standard input: document 4 (line 16): ControllerRevision is of no kind that makes pods or volumes",
	}, ignored(result))
}

func TestAKeyInTwoSpellingsIsAnErrorEverywhere(t *testing.T) {
	_, errs := load(t, "apiVersion: v1\nkind: ConfigMap\ndata:\n  1: a\n  \"1\": b\n", manifest.Options{})
	assert.Equal(t, []string{`standard input: document 1 (line 1): duplicate field "data.1" (line 5)`}, errs)
}

func TestAnObjectOfTwoKindsIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"in YAML": "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nkind: Service\n",
		"in JSON": `{"apiVersion": "v1", "kind": "Pod",` + "\n\n\n" + `"kind": "Service"}`,
	} {
		t.Run(name, func(t *testing.T) {
			result, errs := load(t, text, manifest.Options{})
			assert.Empty(t, result.Ignored)
			require.Len(t, errs, 1)
			assert.Contains(t, errs[0], `duplicate field "kind" (line 4)`)
		})
	}
}

func TestAKindThatThereIsNotNamesTheOneToUse(t *testing.T) {
	for _, test := range []struct{ apiVersion, kind, want string }{
		{"extensions/v1beta1", "Deployment", "apps/v1"},
		{"apps/v1beta1", "Deployment", "apps/v1"},
		{"apps/v1beta2", "StatefulSet", "apps/v1"},
		{"extensions/v1beta1", "DaemonSet", "apps/v1"},
		{"extensions/v1beta1", "ReplicaSet", "apps/v1"},
		{"batch/v1beta1", "CronJob", "batch/v1"},
		{"batch/v2alpha1", "CronJob", "batch/v1"},
		{"extensions/v1beta1", "Job", "batch/v1"},
		{"extensions/v1beta1", "DeploymentList", "apps/v1"},
		{"v1", "Deployment", "apps/v1"},
		{"app/v1", "Deployment", "apps/v1"},
		{"apps/v1", "Pod", "v1"},
		{"v1beta3", "Pod", "v1"},
		{"core/v1", "Pod", "v1"},
		{"apps/v1", "CronJob", "batch/v1"},
	} {
		_, errs := load(t, "apiVersion: "+test.apiVersion+"\nkind: "+test.kind, manifest.Options{})
		require.Len(t, errs, 1)
		assert.Contains(t, errs[0], `apiVersion "`+test.apiVersion+`" has no kind "`+test.kind+`" in Kubernetes 1.37; use `+test.want)
	}
	for _, kind := range []string{"v1\nkind: Pods", "v1\nkind: pod", "apps/v1\nkind: Deployement", "batch/v1\nkind: Jobs", "apps/v1\nkind: List"} {
		_, errs := load(t, "apiVersion: "+kind, manifest.Options{})
		require.Len(t, errs, 1, kind)
		assert.Contains(t, errs[0], `in Kubernetes 1.37`)
	}
}

func TestListsStandForTheirItems(t *testing.T) {
	text := `
apiVersion: v1
kind: List
metadata: {resourceVersion: ""}
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: a, namespace: x}
  spec: {containers: [{name: c}]}
- apiVersion: v1
  kind: Service
  metadata: {name: s}
- apiVersion: v1
  kind: List
  items:
  - apiVersion: v1
    kind: Pod
    metadata: {name: b}
    spec: {containers: [{name: c}]}
- apiVersion: apps/v1
  kind: DeploymentList
  items:
  - metadata: {name: d}
    spec: {template: {spec: {containers: [{name: c}]}}}
- apiVersion: v1
  kind: ServiceList
  items: []
`
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	for name, text := range map[string]string{"YAML": text, "JSON": string(asJSON)} {
		t.Run(name, func(t *testing.T) {
			result := loadAll(t, text)
			require.Len(t, result.Pods, 3)
			assert.Equal(t, []string{"x/a", "default/b"}, podNames(result)[:2])
			assert.Regexp(t, `^default/d-[a-z2-9]{5}$`, podNames(result)[2])
			assert.Equal(t, "items[0]", result.Pods[0].Origin.Item)
			assert.Equal(t, "items[2].items[0]", result.Pods[1].Origin.Item)
			assert.Equal(t, "Deployment", result.Pods[2].Origin.Kind)
			require.Len(t, result.Ignored, 1)
			assert.Equal(t, "items[1]", result.Ignored[0].Origin.Item)
		})
	}
}

func TestAFaultInAListIsThatOfTheItem(t *testing.T) {
	result, errs := load(t, `apiVersion: v1
kind: PodList
items:
- metadata: {name: a}
  spec: {containers: [{name: c}]}
- metadata: {name: b}
  spec:
    containers: [{name: c}]
    volume: []
- metadata: {name: c, name: d}
  spec: {containers: [{name: c}]}
- 5
- kind: Pod
- apiVersion: v1
  kind: Service
  spec: {a: b, a: c}
`, manifest.Options{})
	assert.Equal(t, []string{"default/a"}, podNames(result))
	assert.Equal(t, []string{
		`standard input: document 1 (line 1), items[1]: Pod default/b: unknown field "items[1].spec.volume" (line 9)`,
		`standard input: document 1 (line 1), items[2]: Pod d: duplicate field "items[2].metadata.name" (line 10)`,
		`standard input: document 1 (line 1), items[3]: is not an object with apiVersion and kind`,
		`standard input: document 1 (line 1), items[4]: Pod: has no apiVersion`,
	}, errs)
	assert.Len(t, result.Ignored, 1)

	_, errs = load(t, "apiVersion: v1\nkind: List\nitems: []\nitems: []\n", manifest.Options{})
	assert.Equal(t, []string{`standard input: document 1 (line 1): List: duplicate field "items" (line 4)`}, errs)

	_, errs = load(t, "apiVersion: v1\nkind: List\nitem: []\n", manifest.Options{})
	assert.Equal(t, []string{`standard input: document 1 (line 1): List: unknown field "item" (line 3)`}, errs)
}

func TestListsWithoutEndAreRefused(t *testing.T) {
	var object any = map[string]any{"apiVersion": "v1", "kind": "Service"}
	for range 9 {
		object = map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{object}}
	}
	text, err := json.Marshal(object)
	require.NoError(t, err)
	result, errs := load(t, string(text), manifest.Options{})
	assert.Empty(t, result.Ignored)
	require.Len(t, errs, 1)
	assert.Contains(t, errs[0], "lies in more than 8 lists")
}

func TestFaultsByTheThousandAreCutShort(t *testing.T) {
	_, errs := load(t, deployment("      volumes: ["+strings.Repeat("1, ", 5000)+"]\n"), manifest.Options{})
	assert.Len(t, errs, 100)
	_, errs = load(t, deployment("      volumes: ["+strings.Repeat("{a: 1}, ", 5000)+"]\n"), manifest.Options{})
	assert.Len(t, errs, 100)
	_, errs = load(t, "apiVersion: v1\nkind: List\nitems: ["+strings.Repeat("{a: 1, a: 2}, ", 50_000)+"]\n", manifest.Options{})
	assert.Equal(t, []string{"standard input: document 1 (line 1): has more than 100 duplicate fields"}, errs)
}
