// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/mountns"
)

// What is not served of the applications in testdata, each with the reason; all the rest is.
var notServedOf = map[string]map[string]string{
	"argocd-repo-server.yaml":   {"plugin-tools": "source image is not served here"},
	"cert-manager-webhook.yaml": {"issued": "source csi/csi.cert-manager.io is not served here"},
	"coredns.yaml":              {},
	"fluent-bit.yaml":           {},
	"postgresql.yaml":           {"postgresql-1 data": "source csi/disk.csi.example.com is not served here", "postgresql-2 data": "is not bound"},
	"prometheus.yaml":           {},
}

func TestRealApplicationsGetEveryVolumeButThoseThatNeedADriverThatIsNotThere(t *testing.T) {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	files, err := filepath.Glob("testdata/applications/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, len(notServedOf))
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			exceptions := notServedOf[filepath.Base(file)]
			root := t.TempDir()
			manifest := applicationManifest(t, file)
			status, out, complaints := podvolumes(t, manifest, "up", "-f", "-", "-o", "json", "-root", root)
			assert.Equal(t, len(exceptions) > 0, status == notServed, complaints)
			var report parsedReport
			require.NoError(t, json.Unmarshal([]byte(out), &report))
			found := 0
			for _, pod := range report.Pods {
				assert.Empty(t, pod.Error)
				for _, volume := range pod.Volumes {
					reason, excepted := exceptions[volume.Name]
					if !excepted {
						reason, excepted = exceptions[pod.Name+" "+volume.Name]
					}
					if excepted {
						found++
						assert.NotEqual(t, "mounted", volume.State, "%s of %s", volume.Name, pod.Name)
						assert.Contains(t, volume.Error, reason)
						continue
					}
					assert.Equal(t, "mounted", volume.State, "%s of %s: %s", volume.Name, pod.Name, volume.Error)
				}
			}
			assert.Equal(t, len(exceptions), found)
			// Whatever the example has for a password or a key.
			for _, secret := range []string{"only for the example", "the key of the example", "dGhlIGtleSBvZiB0aGUgZXhhbXBsZQ"} {
				assert.NotContains(t, out+complaints, secret)
			}

			_, again, complaintsAgain := podvolumes(t, manifest, "up", "-f", "-", "-o", "json", "-root", root)
			assert.Equal(t, out, again, "nothing changes when it is set up once more")
			assert.Equal(t, complaints, complaintsAgain)
			requireWell(t, "", "down", "-all", "-root", root)
			requireNoFile(t, root)
		})
	}
}

// applicationManifest returns the manifest with a directory of the test in the place of the host.
func applicationManifest(t *testing.T, file string) string {
	t.Helper()
	host := t.TempDir()
	for _, dir := range []string{"proc", "sys", "var/log", "var/lib/docker/containers", "var/fluent-bit", "etc", "srv"} {
		require.NoError(t, os.MkdirAll(filepath.Join(host, dir), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(host, "etc/machine-id"), nil, 0o600))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return strings.ReplaceAll(string(text), "hostPath: {path: ", "hostPath: {path: "+host)
}

func TestAnApplicationSeesWhatItWasPromised(t *testing.T) {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	for name, test := range map[string]struct{ file, pod, container, script, sees string }{
		"the members' own directory below a subPath": {"postgresql.yaml", "data/postgresql-0", "postgresql", "stat -c %F /var/lib/postgresql/data", "directory\n"},
		"one file over a directory of the image":     {"fluent-bit.yaml", "logging/fluent-bit", "fluent-bit", "head -n1 /fluent-bit/etc/parsers.conf", "[PARSER]\n"},
		"the limit of a container":                   {"fluent-bit.yaml", "logging/fluent-bit", "fluent-bit", "cat /etc/podinfo/memory", "100"},
		"several sources in one directory":           {"prometheus.yaml", "monitoring/prometheus-0", "prometheus", "cd /var/run/secrets/kubernetes.io/serviceaccount; ls; cat namespace", "ca.crt\nnamespace\ntoken\nmonitoring"},
		"a volume below another":                     {"prometheus.yaml", "monitoring/prometheus-0", "prometheus", "cat /etc/prometheus/rules/nodes/nodes.yml", "groups: []\n"},
		"nothing for what is optional":               {"coredns.yaml", "kube-system/coredns", "coredns", "ls /etc/coredns/custom", ""},
		"a config map that holds nothing":            {"argocd-repo-server.yaml", "argocd/repo-server", "repo-server", "ls /app/config/tls", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			_, out, _ := podvolumes(t, applicationManifest(t, filepath.Join("testdata/applications", test.file)), "up", "-f", "-", "-o", "json", "-root", root)
			pod := test.pod
			var report parsedReport
			require.NoError(t, json.Unmarshal([]byte(out), &report))
			for _, p := range report.Pods {
				if namespace, name, _ := strings.Cut(test.pod, "/"); strings.HasPrefix(p.Name, name) {
					pod = namespace + "/" + p.Name
					break
				}
			}
			status, out, complaints := podvolumes(t, "", "exec", pod, test.container, "-root", root, "--", "/bin/sh", "-c", test.script)
			assert.Equal(t, allWell, status, complaints)
			assert.Equal(t, test.sees, out)
			requireWell(t, "", "down", "-all", "-root", root)
		})
	}
}
