// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/mountns"
)

// appManifest returns the example with an application, whose PersistentVolume is a directory of the test.
func appManifest(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("app.yaml")
	require.NoError(t, err)
	require.Contains(t, string(text), "/var/tmp/shop-uploads")
	return strings.ReplaceAll(string(text), "/var/tmp/shop-uploads", filepath.Join(t.TempDir(), "uploads"))
}

// inContainer returns what a command says that is executed in the container of the example.
func inContainer(t *testing.T, root, script string) string {
	t.Helper()
	status, out, complaints := podvolumes(t, "", "exec", "shop/web", "nginx", "-root", root, "--", "/bin/sh", "-c", script)
	require.Equal(t, allWell, status, complaints)
	return out
}

func TestAnApplicationIsServedWithAllThatItNames(t *testing.T) {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	root := t.TempDir()
	status, out, complaints := podvolumes(t, appManifest(t), "up", "-f", "-", "-root", root)
	require.Equal(t, allWell, status, complaints)
	assert.NotContains(t, out+complaints, "correct horse")
	assert.Contains(t, complaints, "fsGroup 101 has no effect on the hostPath")

	assert.Equal(t, "correct horse battery staple", inContainer(t, root, "cat /run/secrets/db/password"))
	assert.Equal(t, "server { listen 8080; }\n", inContainer(t, root, "cat /etc/nginx/nginx.conf"))
	assert.Equal(t, "<h1>It works</h1>\n", inContainer(t, root, "cat /usr/share/nginx/html/index.html"))
	assert.Equal(t, "app=\"web\"\ntier=\"front\"", inContainer(t, root, "cat /etc/podinfo/labels"))
	assert.Regexp(t, `^eyJ[\w-]+\.eyJ[\w-]+\.[\w-]+$`, inContainer(t, root, "cat /run/secrets/tokens/vault"))
	assert.Equal(t, "-r--r----- 0 101\n", inContainer(t, root, "stat -L -c '%A %u %g' /run/secrets/db/password"))
	assert.Equal(t, "refused\n", inContainer(t, root, "touch /run/secrets/db/x 2>/dev/null || echo refused"))
	assert.Equal(t, "kept\n", inContainer(t, root, "echo kept >/srv/uploads/file; cat /srv/uploads/file"))

	records, err := filepath.Glob(filepath.Join(root, "pods/*/volumekit.json"))
	require.NoError(t, err)
	require.Len(t, records, 1)
	record, err := os.ReadFile(records[0])
	require.NoError(t, err)
	assert.NotContains(t, string(record), "correct horse")
	assert.NotContains(t, string(record), "eyJ")

	requireWell(t, "", "status", "-root", root)
	token := inContainer(t, root, "cat /run/secrets/tokens/vault")
	status, _, complaints = podvolumes(t, appManifest(t), "up", "-f", "-", "-root", root)
	require.Equal(t, allWell, status, complaints)
	assert.Equal(t, token, inContainer(t, root, "cat /run/secrets/tokens/vault"), "it is still valid")
	requireWell(t, "", "down", "-all", "-root", root)
	requireNoFile(t, root)
}

func TestAnUpdateOfAConfigMapAppearsAtomicallyInARunningContainer(t *testing.T) {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	dir, root := t.TempDir(), t.TempDir()
	const pod = `
apiVersion: v1
kind: Pod
metadata: {name: web, uid: web-uid, namespace: shop}
spec:
  containers:
    - name: nginx
      volumeMounts: [{name: config, mountPath: /absent/config}, {name: config, mountPath: /absent/part, subPath: a}]
  volumes: [{name: config, configMap: {name: settings}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
data: {a: "N", b: "N", c: "N"}
`
	manifest := filepath.Join(dir, "web.yaml")
	version := func(n int) string {
		return strings.ReplaceAll(pod, `"N"`, fmt.Sprintf("%q", fmt.Sprint("version ", n)))
	}
	write(t, manifest, version(0))
	r := start(t, dir, root)
	r.out.await(t, `^shop/web config: set up in`)

	// What a container sees that runs all the while, until there is a file that says that it is enough.
	const last = 10
	enough := filepath.Join(t.TempDir(), "enough")
	seen, ended := newLines(), make(chan int, 1)
	go func() {
		ended <- run(t.Context(), []string{"exec", "shop/web", "nginx", "-root", root, "--", "/bin/sh", "-c", `cd /absent/config
			echo begun
			enough=
			while [ ! "$enough" ]; do
				if [ -e ` + enough + ` ]; then enough=1; fi
				now=$(cd -P ..data && cat a && echo && cat b && echo && cat c) 2>/dev/null && printf '%s\n' "$now" | sort -u | tr '\n' ';' && echo
				[ "$(cat a)" ] || echo empty
			done
			echo "part: $(cat /absent/part)"`}, streams{in: strings.NewReader(""), out: seen, err: r.complaints})
	}()
	seen.await(t, `^begun$`)
	for n := 1; n <= last; n++ {
		write(t, manifest, version(n))
		// Refreshed again and again: each time it says so.
		awaitContent(t, r, filepath.Join(root, "pods/web-uid/volumes/kubernetes.io~configmap/config/..data/c"), fmt.Sprint("version ", n))
	}
	require.NoError(t, os.WriteFile(enough, nil, 0o600))
	require.Equal(t, allWell, <-ended)
	lines := strings.Split(strings.TrimSpace(strings.TrimPrefix(seen.String(), "begun\n")), "\n")
	for _, line := range lines[:len(lines)-1] {
		assert.Regexp(t, `^version \d+;$`, line, "all files are of one version")
	}
	assert.Equal(t, fmt.Sprintf("version %d;", last), lines[len(lines)-2])
	assert.Equal(t, "part: version 0", lines[len(lines)-1], "a subPath shows what was there when the container started")

	require.NoError(t, os.Remove(manifest))
	r.out.await(t, `^shop/web: remove in`)
}

// awaitContent waits until a file that run makes holds the text.
func awaitContent(t *testing.T, r *running, path, text string) {
	t.Helper()
	for {
		r.out.mu.Lock()
		more := r.out.more
		r.out.mu.Unlock()
		if data, err := os.ReadFile(path); err == nil && string(data) == text {
			return
		}
		select {
		case <-more: // an event
		case <-t.Context().Done():
			require.Fail(t, "never there", "%s in %s:\n%s", text, path, r.out)
		}
	}
}

const statefulSet = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: postgres, volumeMounts: [{name: data, mountPath: /var/lib/postgresql}, {name: scratch, mountPath: /scratch}]}]
      volumes: [{name: scratch, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 1Gi}}}}}}]
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: first}
spec: {capacity: {storage: 2Gi}, accessModes: [ReadWriteOnce], hostPath: {path: HOST}, claimRef: {namespace: default, name: data-db-0}}
`

func TestAStatefulSetGetsTheVolumesThatNameItsClaims(t *testing.T) {
	root, host := t.TempDir(), t.TempDir()
	status, out, complaints := podvolumes(t, strings.ReplaceAll(statefulSet, "HOST", host), "up", "-f", "-", "-root", root, "-o", "json")
	assert.Equal(t, notServed, status)
	var report parsedReport
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Len(t, report.Pods, 2)
	assert.Equal(t, "mounted", report.Pods[0].Volumes[0].State)
	assert.Equal(t, host, report.Pods[0].Volumes[0].Path)
	assert.Equal(t, "pending", report.Pods[0].Volumes[1].State)
	assert.Contains(t, report.Pods[0].Volumes[1].Error, `claim default/db-0-scratch is not bound`)
	assert.Contains(t, report.Pods[0].Volumes[1].Error, `storage class "fast"`)
	assert.Contains(t, report.Pods[1].Volumes[0].Error, `claim default/data-db-1 is not bound`)
	assert.Regexp(t, `(?m)^standard input: document 1 .*volume "data" of pod default/db-1: claim default/data-db-1 is not bound`, complaints)
	requireWell(t, "", "down", "-all", "-root", root)
	requireNoFile(t, root)
}

func TestObjectsThatCannotBeAreNamedBeforeAnythingIsTouched(t *testing.T) {
	const secret = `{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {"a/b": canary}}`
	for name, test := range map[string]struct{ objects, says string }{
		"a key that is no file name": {secret, `a/b`},
		"an unknown field":           {`{apiVersion: v1, kind: ConfigMap, metadata: {name: s}, date: {}}`, `unknown field "date"`},
		"one name twice": {`{apiVersion: v1, kind: ConfigMap, metadata: {name: s}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: s, namespace: default}}`, "it is there already, from standard input: document 2"},
		"a namespace where there is none": {`{apiVersion: v1, kind: PersistentVolume, metadata: {name: s, namespace: x}}`, "a PersistentVolume has no namespace"},
		"no name":                         {`{apiVersion: v1, kind: Secret, metadata: {}}`, "metadata.name"},
		"a version of old":                {`{apiVersion: storage.k8s.io/v1beta1, kind: StorageClass, metadata: {name: s}}`, "use storage.k8s.io/v1"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			status, _, complaints := podvolumes(t, twoVolumes+"\n---\n"+test.objects, "up", "-f", "-", "-root", root)
			assert.Equal(t, wrongUse, status)
			assert.Contains(t, complaints, test.says)
			assert.NotContains(t, complaints, "canary")
			requireNoFile(t, root)
		})
	}
}
