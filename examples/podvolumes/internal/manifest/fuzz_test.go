// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/volumekit/volumekit/examples/podvolumes/internal/manifest"
)

// FuzzLoad holds that whatever is read, the pods are fit for use, they and the objects are unique, each error is one line, and a second reading
// comes to the same.
func FuzzLoad(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	require.NoError(f, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(text)
	}
	for _, text := range []string{
		pod("a") + pod("b") + "\n---\n{a: b}\n...\n%YAML 1.2\n---\n" + pod("c"),
		"apiVersion: v1\nkind: List\nitems:\n- &p {apiVersion: v1, kind: Pod, metadata: {generateName: a}, spec: {containers: [{name: c}]}}\n- *p\n- <<: *p\n",
		"apiVersion: v1\nkind: PodList\nitems: [{metadata: {name: ../x, uid: ..}}, {}, 5, null]\n",
		object("apps/v1", "StatefulSet", "web", "{replicas: 3, ordinals: {start: 1}, volumeClaimTemplates: [{metadata: {name: v}}], TEMPLATE}"),
		object("batch/v1", "Job", "web", "{completionMode: Indexed, completions: 3, parallelism: 9, TEMPLATE}"),
		object("apps/v1", "Deployment", strings.Repeat("a.", 60)+"a", "{replicas: 2000000000, TEMPLATE}"),
		"{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {k: v}}\n---\n{apiVersion: v1, kind: PersistentVolume, metadata: {name: a}, spec: {claimRef: {name: v-web-0}}}\n",
		"apiVersion: v1\nkind: PersistentVolumeClaimList\nitems: [{metadata: {name: v-web-0}}, {metadata: {name: v-web-0}}]\n---\n" + pod("v"),
		"\ufeffa: &a [*a]\r\n? [b]\n: c\n---\ry: 1\nyes: 2\n\"1\": 0x1\n1: .nan\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		opts := manifest.Options{MaxPods: 100, MaxDocumentBytes: 64 << 10}
		opts.Stdin = bytes.NewReader(text)
		result, errs := manifest.Load(t.Context(), []string{"-"}, opts)

		require.LessOrEqual(t, len(result.Pods), opts.MaxPods)
		names, uids := map[types.NamespacedName]bool{}, map[types.UID]bool{}
		for _, p := range result.Pods {
			require.Empty(t, validation.IsDNS1123Subdomain(p.Pod.Name))
			require.Empty(t, validation.IsDNS1123Label(p.Pod.Namespace))
			require.NotEmpty(t, p.Pod.UID)
			require.False(t, strings.ContainsAny(string(p.Pod.UID), "/\x00\n") || strings.HasPrefix(string(p.Pod.UID), "."))
			require.NotEmpty(t, p.Pod.Spec.Containers)
			require.NotZero(t, p.Origin.Line)
			require.LessOrEqual(t, p.Origin.Line, bytes.Count(text, []byte("\n"))+1)
			name := types.NamespacedName{Namespace: p.Pod.Namespace, Name: p.Pod.Name}
			require.False(t, names[name] || uids[p.Pod.UID])
			names[name], uids[p.Pod.UID] = true, true
		}
		objects := map[string]bool{}
		for i, name := range objectNames(t, result) {
			name = strings.TrimSuffix(name, "*")
			require.False(t, objects[name], name)
			objects[name] = true
			require.NotEmpty(t, result.Objects[i].Object.GetObjectKind().GroupVersionKind().Kind)
			require.NotZero(t, result.Objects[i].Origin.Line)
		}
		for _, message := range messages(t, errs) {
			require.False(t, strings.ContainsFunc(message, func(r rune) bool { return unicode.IsControl(r) }), "%q", message)
		}

		opts.Stdin = bytes.NewReader(text)
		again, errsAgain := manifest.Load(t.Context(), []string{"-"}, opts)
		assert.Equal(t, result, again)
		assert.Equal(t, messages(t, errs), messages(t, errsAgain))
	})
}
