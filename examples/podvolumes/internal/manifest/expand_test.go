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
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/examples/podvolumes/internal/manifest"
)

// object is a manifest with a spec of one line in YAML's braces. TEMPLATE in it becomes a pod template.
func object(apiVersion, kind, name, spec string) string {
	template := "template: {metadata: {labels: {app: x}, annotations: {note: z}}, spec: {containers: [{name: c}], volumes: [{name: v, emptyDir: {}}]}}"
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s}\nspec: %s\n", apiVersion, kind, name, strings.ReplaceAll(spec, "TEMPLATE", template))
}

func TestEachKindMakesThePodsThatItMakesInACluster(t *testing.T) {
	const suffix = "-[bcdfghjklmnpqrstvwxz2456789]{5}"
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"a Pod":                           {"apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c}]}\n", []string{"web"}},
		"a Deployment":                    {object("apps/v1", "Deployment", "web", "{TEMPLATE}"), []string{"web" + suffix}},
		"a Deployment of 3":               {object("apps/v1", "Deployment", "web", "{replicas: 3, TEMPLATE}"), []string{"web" + suffix, "web" + suffix, "web" + suffix}},
		"a ReplicaSet":                    {object("apps/v1", "ReplicaSet", "web", "{replicas: 2, TEMPLATE}"), []string{"web" + suffix, "web" + suffix}},
		"a ReplicationController":         {object("v1", "ReplicationController", "web", "{replicas: 2, TEMPLATE}"), []string{"web" + suffix, "web" + suffix}},
		"a DaemonSet":                     {object("apps/v1", "DaemonSet", "web", "{TEMPLATE}"), []string{"web" + suffix}},
		"a StatefulSet":                   {object("apps/v1", "StatefulSet", "web", "{TEMPLATE}"), []string{"web-0"}},
		"a StatefulSet of 3":              {object("apps/v1", "StatefulSet", "web", "{replicas: 3, TEMPLATE}"), []string{"web-0", "web-1", "web-2"}},
		"a StatefulSet that starts later": {object("apps/v1", "StatefulSet", "web", "{replicas: 2, ordinals: {start: 5}, TEMPLATE}"), []string{"web-5", "web-6"}},
		"a Job":                           {object("batch/v1", "Job", "web", "{TEMPLATE}"), []string{"web" + suffix}},
		"a parallel Job":                  {object("batch/v1", "Job", "web", "{parallelism: 2, TEMPLATE}"), []string{"web" + suffix, "web" + suffix}},
		"a Job of many completions":       {object("batch/v1", "Job", "web", "{completions: 9, TEMPLATE}"), []string{"web" + suffix}},
		"a Job of fewer completions":      {object("batch/v1", "Job", "web", "{completions: 2, parallelism: 5, TEMPLATE}"), []string{"web" + suffix, "web" + suffix}},
		"an indexed Job":                  {object("batch/v1", "Job", "web", "{completionMode: Indexed, completions: 3, parallelism: 2, TEMPLATE}"), []string{"web-0" + suffix, "web-1" + suffix}},
		"a CronJob":                       {object("batch/v1", "CronJob", "web", `{schedule: "@daily", jobTemplate: {spec: {parallelism: 2, TEMPLATE}}}`), []string{"web" + suffix, "web" + suffix}},
		"an indexed CronJob":              {object("batch/v1", "CronJob", "web", `{schedule: "@daily", jobTemplate: {spec: {completionMode: Indexed, completions: 1, TEMPLATE}}}`), []string{"web-0" + suffix}},
		"a PodTemplate":                   {"apiVersion: v1\nkind: PodTemplate\nmetadata: {name: web}\ntemplate: {spec: {containers: [{name: c}]}}\n", []string{"web" + suffix}},
	} {
		t.Run(name, func(t *testing.T) {
			result := loadAll(t, test.text)
			require.Len(t, result.Pods, len(test.want))
			assert.Empty(t, result.Ignored)
			for i, pod := range result.Pods {
				assert.Regexp(t, "^"+test.want[i]+"$", pod.Pod.Name)
				assert.Equal(t, "default", pod.Pod.Namespace)
				assert.Len(t, pod.Pod.UID, 36)
				assert.Equal(t, "Pod", pod.Pod.Kind)
				assert.Equal(t, "v1", pod.Pod.APIVersion)
				assert.Equal(t, "web", pod.Origin.Name)
			}
		})
	}
}

func TestObjectsThatRunNothingSaySo(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"a Deployment of 0":     {object("apps/v1", "Deployment", "web", "{replicas: 0, TEMPLATE}"), "has 0 replicas"},
		"a StatefulSet of 0":    {object("apps/v1", "StatefulSet", "web", "{replicas: 0, TEMPLATE}"), "has 0 replicas"},
		"a suspended Job":       {object("batch/v1", "Job", "web", "{suspend: true, TEMPLATE}"), "is suspended"},
		"a Job without workers": {object("batch/v1", "Job", "web", "{parallelism: 0, TEMPLATE}"), "has parallelism 0"},
		"a Job that is done":    {object("batch/v1", "Job", "web", "{completions: 0, TEMPLATE}"), "has completions 0"},
		"a suspended CronJob":   {object("batch/v1", "CronJob", "web", "{suspend: true, schedule: x, jobTemplate: {spec: {TEMPLATE}}}"), "is suspended"},
		"a CronJob of a suspended Job": {
			object("batch/v1", "CronJob", "web", "{schedule: x, jobTemplate: {spec: {suspend: true, TEMPLATE}}}"), "is suspended"},
	} {
		t.Run(name, func(t *testing.T) {
			result := loadAll(t, test.text)
			assert.Empty(t, result.Pods)
			require.Len(t, result.Ignored, 1)
			assert.Equal(t, test.want, result.Ignored[0].Reason)
			assert.Equal(t, "default", result.Ignored[0].Origin.Namespace)
		})
	}
}

func TestNumbersOfPodsThatCannotBeAreErrors(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"negative replicas":    {object("apps/v1", "Deployment", "web", "{replicas: -1, TEMPLATE}"), `field "spec.replicas": -1 is negative`},
		"negative start":       {object("apps/v1", "StatefulSet", "web", "{ordinals: {start: -1}, TEMPLATE}"), `field "spec.ordinals.start": -1 is negative`},
		"negative parallelism": {object("batch/v1", "Job", "web", "{parallelism: -1, TEMPLATE}"), `field "spec.parallelism": -1 is negative`},
		"negative completions": {object("batch/v1", "CronJob", "web", "{schedule: x, jobTemplate: {spec: {completions: -1, TEMPLATE}}}"), `field "spec.jobTemplate.spec.completions": -1 is negative`},
		"indexes without end":  {object("batch/v1", "Job", "web", "{completionMode: Indexed, TEMPLATE}"), `field "spec.completions": is required for completionMode Indexed`},
		"an unknown mode":      {object("batch/v1", "Job", "web", "{completionMode: indexed, TEMPLATE}"), `field "spec.completionMode": "indexed" is neither NonIndexed nor Indexed`},
		"two thousand million": {object("apps/v1", "Deployment", "web", "{replicas: 2000000000, TEMPLATE}"), "makes 2000000000 pods, more than the limit of 10000"},
		"as many at once":      {object("batch/v1", "Job", "web", "{parallelism: 2000000000, TEMPLATE}"), "makes 2000000000 pods, more than the limit of 10000"},
		"the highest ordinals": {object("apps/v1", "StatefulSet", "web", "{ordinals: {start: 2147483647}, replicas: 2147483647, TEMPLATE}"), "makes 2147483647 pods, more than the limit of 10000"},
	} {
		t.Run(name, func(t *testing.T) {
			result, errs := load(t, test.text, manifest.Options{})
			assert.Empty(t, result.Pods)
			require.Len(t, errs, 1)
			assert.True(t, strings.HasSuffix(errs[0], " default/web: "+test.want), errs[0])
		})
	}
}

func TestTheLimitOfPodsCountsThoseOfAllObjects(t *testing.T) {
	two := object("apps/v1", "Deployment", "two", "{replicas: 2, TEMPLATE}")
	three := object("apps/v1", "Deployment", "three", "{replicas: 3, TEMPLATE}")
	text := two + "---\n" + three + "---\n" + pod("one")

	result, errs := load(t, text+"\n---\n"+pod("another"), manifest.Options{MaxPods: 3})
	assert.Len(t, result.Pods, 3)
	require.Len(t, errs, 2)
	assert.Contains(t, errs[0], "default/three: makes 3 pods: with the 2 before, that is more than the limit of 3")
	assert.Contains(t, errs[1], "default/another: makes 1 pods: with the 3 before, that is more than the limit of 3")

	result, errs = load(t, text, manifest.Options{MaxPods: 6})
	assert.Len(t, result.Pods, 6)
	assert.Empty(t, errs)
}

func TestAPodOfATemplateHasWhatTheTemplateHas(t *testing.T) {
	p := loadAll(t, object("apps/v1", "Deployment", "web", "{TEMPLATE}")).Pods[0].Pod
	assert.Equal(t, map[string]string{"app": "x"}, p.Labels)
	assert.Equal(t, map[string]string{"note": "z"}, p.Annotations)
	require.Len(t, p.OwnerReferences, 1)
	assert.Equal(t, "apps/v1", p.OwnerReferences[0].APIVersion)
	assert.Equal(t, "Deployment", p.OwnerReferences[0].Kind)
	assert.Equal(t, "web", p.OwnerReferences[0].Name)
	assert.NotEmpty(t, p.OwnerReferences[0].UID)
	assert.True(t, *p.OwnerReferences[0].Controller)
}

func TestAStatefulSetsPodsHaveTheirIdentityAndTheirClaims(t *testing.T) {
	result := loadAll(t, object("apps/v1", "StatefulSet", "web",
		"{replicas: 2, serviceName: svc, volumeClaimTemplates: [{metadata: {name: data}, spec: {}}, {metadata: {name: v}, spec: {}}], TEMPLATE}"))
	require.Len(t, result.Pods, 2)
	for i, p := range result.Pods {
		name := fmt.Sprintf("web-%d", i)
		assert.Equal(t, map[string]string{"app": "x", "statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": fmt.Sprint(i)}, p.Pod.Labels)
		assert.Equal(t, name, p.Pod.Spec.Hostname)
		assert.Equal(t, "svc", p.Pod.Spec.Subdomain)
		require.Len(t, p.Pod.Spec.Volumes, 2, "the claim replaces the template's volume v")
		assert.Equal(t, "data-"+name, p.Pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName)
		assert.Equal(t, "v-"+name, p.Pod.Spec.Volumes[1].PersistentVolumeClaim.ClaimName)
	}
}

func TestAnIndexedJobsPodsKnowTheirIndex(t *testing.T) {
	text := strings.Replace(object("batch/v1", "Job", "web", "{completionMode: Indexed, completions: 2, parallelism: 2, TEMPLATE}"),
		"[{name: c}]", "[{name: c}, {name: d, env: [{name: JOB_COMPLETION_INDEX, value: own}]}]", 1)
	result := loadAll(t, text)
	require.Len(t, result.Pods, 2)
	for i, p := range result.Pods {
		index := fmt.Sprint(i)
		assert.Equal(t, index, p.Pod.Annotations[batchv1.JobCompletionIndexAnnotation])
		assert.Equal(t, index, p.Pod.Labels[batchv1.JobCompletionIndexAnnotation])
		assert.Equal(t, "z", p.Pod.Annotations["note"])
		assert.Equal(t, "web-"+index, p.Pod.Spec.Hostname)
		env := p.Pod.Spec.Containers[0].Env
		require.Len(t, env, 1)
		assert.Equal(t, "JOB_COMPLETION_INDEX", env[0].Name)
		assert.Equal(t, "metadata.labels['batch.kubernetes.io/job-completion-index']", env[0].ValueFrom.FieldRef.FieldPath)
		assert.Equal(t, []v1.EnvVar{{Name: "JOB_COMPLETION_INDEX", Value: "own"}}, p.Pod.Spec.Containers[1].Env)
	}
}

func TestAPodKeepsWhatItSaysOfItself(t *testing.T) {
	result := loadAll(t, `
apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: shop
  uid: 0b5e1c9a-2f0e-4a8e-9a39-0f7a3b5b6c1d
  labels: {a: b}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: x}]
  creationTimestamp: "2026-01-02T03:04:05Z"
spec:
  containers: [{name: c, resources: {limits: {memory: 1Gi}, requests: {memory: 1Mi}}}]
  volumes:
  - {name: h, hostPath: {path: /x}}
  - {name: s, secret: {secretName: s}}
status: {phase: Running}
`)
	p := result.Pods[0].Pod
	assert.Equal(t, "shop", p.Namespace)
	assert.Equal(t, types.UID("0b5e1c9a-2f0e-4a8e-9a39-0f7a3b5b6c1d"), p.UID)
	assert.Equal(t, "ReplicaSet", p.OwnerReferences[0].Kind)
	assert.Nil(t, p.Spec.Volumes[0].HostPath.Type)
	assert.Nil(t, p.Spec.Volumes[1].EmptyDir)
	assert.Equal(t, "1Mi", p.Spec.Containers[0].Resources.Requests.Memory().String())
}

func TestTwoObjectsThatMakeOnePodAreBothNamed(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first.yaml"), filepath.Join(dir, "second.yaml")
	require.NoError(t, os.WriteFile(first, []byte(object("apps/v1", "StatefulSet", "web", "{replicas: 3, TEMPLATE}")), 0o600))
	require.NoError(t, os.WriteFile(second, []byte(pod("web-1")+"\n---\n"+pod("web-7")), 0o600))

	result, errs := manifest.Load(t.Context(), []string{first, second}, manifest.Options{})
	assert.Equal(t, []string{"default/web-0", "default/web-1", "default/web-2", "default/web-7"}, podNames(result))
	assert.Equal(t, "StatefulSet", result.Pods[1].Origin.Kind, "the first is kept")
	assert.Equal(t, []string{
		second + ": document 1 (line 1): Pod default/web-1: pod default/web-1 comes from " + first + ": document 1 (line 1): StatefulSet default/web too",
	}, messages(t, errs))

	_, errs = manifest.Load(t.Context(), []string{first, first}, manifest.Options{})
	assert.Len(t, errs, 1, "one error for all pods of one object")
}

func TestPodsOfOneNameInTwoNamespacesAreTwo(t *testing.T) {
	other := strings.Replace(pod("web"), `"name": "web"`, `"name": "web", "namespace": "other"`, 1)
	assert.Equal(t, []string{"default/web", "other/web"}, podNames(loadAll(t, pod("web")+"\n---\n"+other)))
}

func TestTwoPodsOfOneUIDAreBothNamed(t *testing.T) {
	with := func(name string) string {
		return strings.Replace(pod(name), `"metadata": {`, `"metadata": {"uid": "1234", `, 1)
	}
	result, errs := load(t, with("a")+"\n---\n"+with("b"), manifest.Options{})
	assert.Equal(t, []string{"default/a"}, podNames(result))
	assert.Equal(t, []string{
		`standard input: document 2 (line 3): Pod default/b: pod default/b has the UID "1234", which is that of pod default/a from standard input: document 1 (line 1): Pod default/a`,
	}, errs)
}
