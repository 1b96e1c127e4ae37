// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/volumekit/volumekit/examples/podvolumes/internal/manifest"
)

// What was set up under one name by an earlier release would be left behind under another.
func TestNamesAndUIDsAreTheSameForEver(t *testing.T) {
	result := loadAll(t, strings.Join([]string{
		object("apps/v1", "Deployment", "web", "{replicas: 2, TEMPLATE}"),
		object("batch/v1", "Job", "web", "{completionMode: Indexed, completions: 1, TEMPLATE}"),
		strings.Replace(pod(""), `"name": ""`, `"generateName": "gen-"`, 1),
		pod("web"),
	}, "\n---\n"))
	var got []string
	for _, p := range result.Pods {
		got = append(got, p.Pod.Name+" "+string(p.Pod.UID))
	}
	assert.Equal(t, []string{
		"web-7sjhb a23cbc50-ee98-50e9-b170-d35cd67e57ee",
		"web-fjt5f 3d4f85ef-e15c-58b0-9b6e-e9f8821da96c",
		"web-0-28bmd 18aa071c-6638-5af9-a17c-1157f0c5592b",
		"gen-wsx9v 001c5a97-b57b-57a2-9936-5b284f2093ac",
		"web d59d40c2-6ce2-54b3-ba45-b355f2109eea",
	}, got)
	assert.Equal(t, "fc19c22d-9aaa-509e-af76-4f4394cc83cf", string(result.Pods[0].Pod.OwnerReferences[0].UID))
}

func TestMorePodsDoNotRenameThoseBefore(t *testing.T) {
	few := loadAll(t, object("apps/v1", "Deployment", "web", "{replicas: 3, TEMPLATE}"))
	many := loadAll(t, object("apps/v1", "Deployment", "web", "{replicas: 10000, TEMPLATE}"))
	assert.Equal(t, podNames(few), podNames(many)[:3])

	seen := map[string]bool{}
	for _, name := range podNames(many) {
		assert.False(t, seen[name], "two pods are called %s", name)
		seen[name] = true
	}
}

func TestObjectsOfOneNameAndTwoKindsMakePodsOfTwoNames(t *testing.T) {
	result := loadAll(t, object("apps/v1", "Deployment", "web", "{TEMPLATE}")+"---\n"+object("apps/v1", "DaemonSet", "web", "{TEMPLATE}"))
	assert.NotEqual(t, result.Pods[0].Pod.Name, result.Pods[1].Pod.Name)
}

func TestAnEditedTemplateKeepsThePodsName(t *testing.T) {
	text := object("apps/v1", "Deployment", "web", "{TEMPLATE}")
	edited := strings.Replace(text, "emptyDir: {}", "emptyDir: {medium: Memory}", 1)
	assert.Equal(t, podNames(loadAll(t, text)), podNames(loadAll(t, edited)))
}

func TestLongNamesAreCutAsInACluster(t *testing.T) {
	name := strings.Repeat("a", 60)
	deployed := loadAll(t, object("apps/v1", "Deployment", name, "{TEMPLATE}")).Pods[0].Pod.Name
	assert.Regexp(t, "^a{58}[b-z2-9]{5}$", deployed)
	indexed := loadAll(t, object("batch/v1", "Job", name, "{completionMode: Indexed, completions: 1, TEMPLATE}")).Pods[0].Pod.Name
	assert.Regexp(t, "^a{55}-0-[b-z2-9]{5}$", indexed)
	// A StatefulSet's pods are not renamed.
	assert.Equal(t, name+"-0", loadAll(t, object("apps/v1", "StatefulSet", name, "{TEMPLATE}")).Pods[0].Pod.Name)
}

func TestGeneratedNamesAreStableInTheirFile(t *testing.T) {
	generate := strings.Replace(pod(""), `"name": ""`, `"generateName": "gen-"`, 1)
	result := loadAll(t, generate+"\n---\n"+generate)
	names := podNames(result)
	require.Len(t, names, 2)
	for _, name := range names {
		assert.Regexp(t, "^default/gen-[b-z2-9]{5}$", name)
	}
	assert.NotEqual(t, names[0], names[1])
	assert.Equal(t, names, podNames(loadAll(t, pod("another")+"\n---\n"+generate+"\n---\n"+generate))[1:])

	// Were it counted across files, a file would mean other pods when it is read alone.
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	for _, file := range []string{a, b} {
		require.NoError(t, os.WriteFile(file, []byte(generate), 0o600))
	}
	_, errs := manifest.Load(t.Context(), []string{a, b}, manifest.Options{})
	require.Len(t, errs, 1)
	assert.Contains(t, errs[0].Error(), "comes from "+a)

	job := strings.Replace(object("batch/v1", "Job", "x", "{TEMPLATE}"), "name: x", "generateName: import-", 1)
	assert.Regexp(t, "^default/import-[b-z2-9]{5}-[b-z2-9]{5}$", podNames(loadAll(t, job))[0])
}

func TestNamesThatCouldLeaveTheirDirectoryAreRefusedByName(t *testing.T) {
	for _, name := range []string{"../x", "..", ".", "a/b", "/etc", "A", "a_b", "-a", "a\x00b", "a\nb", "ä", strings.Repeat("a", 254), " "} {
		for _, kind := range []string{"v1/Pod", "apps/v1/Deployment", "apps/v1/StatefulSet", "batch/v1/CronJob"} {
			apiVersion, kind := kind[:strings.LastIndex(kind, "/")], kind[strings.LastIndex(kind, "/")+1:]
			for _, metadata := range []string{`{"name": %q}`, `{"name": "x", "namespace": %q}`, `{"generateName": %q}`} {
				metadata = fmt.Sprintf(strings.ReplaceAll(metadata, "%q", "%s"), quoteJSON(name))
				template := `{"spec": {"containers": [{"name": "c"}]}}`
				spec := map[string]string{"Pod": `{"containers": [{"name": "c"}]}`, "CronJob": `{"schedule": "x", "jobTemplate": {"spec": {"template": ` + template + `}}}`}[kind]
				if spec == "" {
					spec = `{"template": ` + template + `}`
				}
				result, errs := load(t, fmt.Sprintf(`{"apiVersion": %q, "kind": %q, "metadata": %s, "spec": %s}`, apiVersion, kind, metadata, spec), manifest.Options{})
				if strings.Contains(metadata, "generateName") && len(name) == 254 {
					// It is cut, and then valid.
					assert.Empty(t, errs)
					continue
				}
				require.Len(t, errs, 1, "%s %s", kind, metadata)
				assert.Contains(t, errs[0], ": metadata.name", kind)
				assert.Empty(t, result.Pods)
			}
		}
	}
}

func quoteJSON(s string) string {
	s = strings.ReplaceAll(s, "\x00", `\u0000`)
	return `"` + strings.ReplaceAll(s, "\n", `\n`) + `"`
}

func TestAStatefulSetsNameHasNoDotAsInACluster(t *testing.T) {
	_, errs := load(t, object("apps/v1", "StatefulSet", "a.b", "{TEMPLATE}"), manifest.Options{})
	require.Len(t, errs, 1)
	assert.Contains(t, errs[0], `metadata.name "a.b": must not contain dots`)
	assert.Len(t, loadAll(t, object("apps/v1", "Deployment", "a.b", "{TEMPLATE}")).Pods, 1)
}

func TestUIDsThatCouldLeaveTheirDirectoryAreRefusedByName(t *testing.T) {
	for _, uid := range []string{"../x", "..", ".", "a/b", "/etc", `a\u0000b`, strings.Repeat("a", 256)} {
		result, errs := load(t, strings.Replace(pod("a"), `"metadata": {`, `"metadata": {"uid": "`+uid+`", `, 1), manifest.Options{})
		require.Len(t, errs, 1)
		assert.Contains(t, errs[0], "Pod default/a: pod UID ")
		assert.Empty(t, result.Pods)
	}
}

func TestAnObjectWithoutANameIsAnError(t *testing.T) {
	_, errs := load(t, `{"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c"}]}}`, manifest.Options{})
	assert.Equal(t, []string{"standard input: document 1 (line 1): Pod: has no metadata.name"}, errs)
}

func TestWhatTheManifestBringsIsQuotedInErrors(t *testing.T) {
	_, errs := load(t, "apiVersion: v1\nkind: \"Pod\\nerror: all is lost\"\nmetadata: {name: \"\\e[31mred\"}\n", manifest.Options{})
	require.Len(t, errs, 1)
	assert.Equal(t, `standard input: document 1 (line 1): "Pod\nerror: all is lost" "\x1b[31mred": apiVersion "v1" has no kind "Pod\nerror: all is lost" in Kubernetes 1.37`, errs[0])

	for _, name := range []string{strings.Repeat("a", 100_000), strings.Repeat("\u0301", 100_000)} {
		_, errs = load(t, strings.Replace(pod("NAME"), "NAME", name, 1), manifest.Options{})
		require.Len(t, errs, 1)
		assert.Less(t, len(errs[0]), 4000)
	}
}

func TestEveryGeneratedNameIsOneThatKubernetesTakes(t *testing.T) {
	for _, name := range []string{"a", "a.b", strings.Repeat("a", 57) + ".b", strings.Repeat("a", 56) + "-b-c", strings.Repeat("a.", 100) + "a"} {
		for _, p := range loadAll(t, object("apps/v1", "Deployment", name, "{replicas: 20, TEMPLATE}")).Pods {
			assert.Empty(t, validation.IsDNS1123Subdomain(p.Pod.Name))
			assert.LessOrEqual(t, len(p.Pod.Name), 63)
		}
	}
}
