// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/volume/volumetest"
)

// TestMain lets the test binary be the program when it is started under its name, as exec does.
func TestMain(m *testing.M) {
	if os.Args[0] == "podvolumes" {
		main()
	}
	os.Exit(volumetest.Main(m))
}

// podvolumes runs the program with the words of the command line and returns what it wrote.
func podvolumes(t *testing.T, stdin string, args ...string) (status int, out, complaints string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status = run(t.Context(), args, streams{in: strings.NewReader(stdin), out: &stdout, err: &stderr})
	return status, stdout.String(), stderr.String()
}

// requireWell runs the program, which has to find all well.
func requireWell(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	status, out, complaints := podvolumes(t, stdin, args...)
	require.Equal(t, allWell, status, complaints)
	require.Empty(t, complaints)
	return out
}

func requireNoFile(t *testing.T, root string) {
	t.Helper()
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Empty(t, entries)
}

const twoVolumes = `
apiVersion: v1
kind: Pod
metadata: {name: web, uid: web-uid}
spec:
  containers:
    - name: nginx
      volumeMounts:
        - {name: cache, mountPath: /var/cache}
        - {name: etc, mountPath: /host, readOnly: true, mountPropagation: HostToContainer, bindMountOptions: [noexec]}
  volumes:
    - {name: cache, emptyDir: {}}
    - {name: etc, hostPath: {path: /etc}}
`

const imageBesideEmptyDir = `
apiVersion: v1
kind: Pod
metadata: {name: mixed}
spec:
  containers: [{name: main, volumeMounts: [{name: tools, mountPath: /tools}, {name: cache, mountPath: /cache}]}]
  volumes: [{name: tools, image: {reference: "tools:1"}}, {name: cache, emptyDir: {}}]
`

func TestUpShowsATreeOfPodsVolumesAndMounts(t *testing.T) {
	root := t.TempDir()
	out := requireWell(t, twoVolumes, "up", "-f", "-", "-root", root)
	assert.Equal(t, strings.ReplaceAll(`default/web
├─ cache  mounted  kubernetes.io/empty-dir  ROOT/pods/web-uid/volumes/kubernetes.io~empty-dir/cache
├─ etc    mounted  kubernetes.io/host-path  /etc
└─ container nginx
   ├─ /host       etc, read-only, propagation HostToContainer, noexec
   └─ /var/cache  cache, read-write
`, "ROOT", root), out)
	requireWell(t, "", "down", "-all", "-root", root)
	requireNoFile(t, root)
}

func TestJSONHasTheDocumentedSchema(t *testing.T) {
	root := t.TempDir()
	out := requireWell(t, twoVolumes, "up", "-f", "-", "-o", "json", "-root", root)
	cache := filepath.Join(root, "pods/web-uid/volumes/kubernetes.io~empty-dir/cache")
	assert.JSONEq(t, strings.ReplaceAll(`{"pods": [{
		"namespace": "default", "name": "web", "uid": "web-uid",
		"volumes": [
			{"name": "cache", "plugin": "kubernetes.io/empty-dir", "path": "CACHE", "readOnly": false, "state": "mounted", "error": ""},
			{"name": "etc", "plugin": "kubernetes.io/host-path", "path": "/etc", "readOnly": false, "state": "mounted", "error": ""}],
		"containers": [{"name": "nginx", "mounts": [
			{"volume": "etc", "source": "/etc", "destination": "/host", "readOnly": true, "propagation": "HostToContainer", "options": ["rbind", "rslave", "ro", "noexec"]},
			{"volume": "cache", "source": "CACHE", "destination": "/var/cache", "readOnly": false, "propagation": "None", "options": ["rbind", "rprivate", "rw"]}]}]
	}]}`, "CACHE", cache), out)
	requireWell(t, "", "down", "-all", "-root", root)
	assert.JSONEq(t, `{"pods": []}`, requireWell(t, "", "status", "-o", "json", "-root", root))
}

func TestStatusShowsSizesAndLimits(t *testing.T) {
	root := t.TempDir()
	manifest := strings.Replace(twoVolumes, "emptyDir: {}", "emptyDir: {sizeLimit: 1Mi}", 1)
	requireWell(t, manifest, "up", "-f", "-", "-root", root)
	file := filepath.Join(root, "pods/web-uid/volumes/kubernetes.io~empty-dir/cache/file")
	require.NoError(t, os.WriteFile(file, make([]byte, 1<<19), 0o600))

	assert.Contains(t, requireWell(t, "", "status", "-root", root), "Ki used of 1Mi (not enforced)")
	var report parsedReport
	require.NoError(t, json.Unmarshal([]byte(requireWell(t, "", "status", "-o", "json", "-root", root)), &report))
	usage := report.Pods[0].Volumes[0].Usage
	assert.GreaterOrEqual(t, usage.UsedBytes, int64(1<<19))
	assert.EqualValues(t, 1<<20, usage.LimitBytes)
	requireWell(t, "", "down", "-all", "-root", root)
}

func TestUpAgainChangesNothing(t *testing.T) {
	root := t.TempDir()
	first := requireWell(t, twoVolumes, "up", "-f", "-", "-root", root)
	file := filepath.Join(root, "pods/web-uid/volumes/kubernetes.io~empty-dir/cache/file")
	require.NoError(t, os.WriteFile(file, []byte("kept"), 0o600))
	assert.Equal(t, first, requireWell(t, twoVolumes, "up", "-f", "-", "-root", root))
	assert.FileExists(t, file)
	requireWell(t, "", "down", "-all", "-root", root)
}

func TestWhatCannotBeServedIsNamedAndTheRestStaysUp(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(t.TempDir(), "mixed.yaml")
	require.NoError(t, os.WriteFile(file, []byte("kind: Namespace\napiVersion: v1\nmetadata: {name: x}\n---"+imageBesideEmptyDir), 0o600))

	status, out, complaints := podvolumes(t, "", "up", "-f", file, "-o", "json", "-root", root)
	assert.Equal(t, notServed, status)
	assert.Equal(t, file+`: document 2 (line 5): Pod default/mixed: set up volume "tools" of pod default/mixed: source image is not served here, since no plugin for it is registered: a container runtime mounts it, which has the images: have that do it, or copy the files to an emptyDir volume in an init container that runs the image`+"\n", complaints)
	var report parsedReport
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	assert.Equal(t, "failed", report.Pods[0].Volumes[0].State)
	assert.Contains(t, report.Pods[0].Volumes[0].Error, "image")
	assert.Equal(t, "mounted", report.Pods[0].Volumes[1].State)
	assert.DirExists(t, report.Pods[0].Volumes[1].Path)

	status, _, complaints = podvolumes(t, "", "status", "-root", root)
	assert.Equal(t, notServed, status)
	assert.Contains(t, complaints, "source image is not served here")
	requireWell(t, "", "down", "-f", file, "-root", root)
	requireNoFile(t, root)
}

func TestAPodThatIsRefusedIsNamedWithAllItsFaults(t *testing.T) {
	root := t.TempDir()
	manifest := strings.ReplaceAll(twoVolumes, "name: etc", "name: cache")
	status, out, complaints := podvolumes(t, manifest, "up", "-f", "-", "-o", "json", "-root", root)
	assert.Equal(t, notServed, status)
	assert.Equal(t, `standard input: document 1 (line 2): Pod default/web: pod default/web: two volumes have the name "cache"`+"\n", complaints)
	var report parsedReport
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Len(t, report.Pods[0].Volumes, 2)
	assert.Equal(t, "failed", report.Pods[0].Volumes[0].State)
	requireNoFile(t, root)
}

func TestUnreadableInputEndsWithStatusTwoBeforeAnythingIsTouched(t *testing.T) {
	for name, test := range map[string]struct{ manifest, says string }{
		"an unknown field":          {strings.Replace(twoVolumes, "readOnly", "readonly", 1), `readonly`},
		"an unknown volume source":  {strings.Replace(twoVolumes, "emptyDir:", "emptydir:", 1), `emptydir`},
		"no YAML":                   {"{", "standard input"},
		"a second document is bad":  {twoVolumes + "\n---\nkind: Pod\n", "document 2"},
		"a name that leads outside": {strings.Replace(twoVolumes, "name: web", "name: ../web", 1), `../web`},
	} {
		t.Run(name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "root")
			status, out, complaints := podvolumes(t, test.manifest, "up", "-f", "-", "-root", root)
			assert.Equal(t, wrongUse, status)
			assert.Empty(t, out)
			assert.Contains(t, complaints, test.says)
			assert.NoDirExists(t, root)
		})
	}
}

func TestWrongUseEndsWithStatusTwoAndSaysWhy(t *testing.T) {
	for name, test := range map[string]struct {
		args string
		says string
	}{
		"nothing at all":              {"", "usage:"},
		"an unknown command":          {"start", `"start"`},
		"up without a file":           {"up", "-f FILE"},
		"a file without -f":           {"up web.yaml", "given with -f"},
		"a file that is not there":    {"up -f no-such-file.yaml", "no-such-file.yaml"},
		"an unknown flag":             {"up -x", "-x"},
		"an unknown output":           {"up -f - -o yaml", "json"},
		"a flag of another command":   {"status -all", "-all"},
		"down without a selection":    {"down", "which pods"},
		"down with two selections":    {"down -all -pod a/b", "one of them only"},
		"a pod without its namespace": {"down -pod web", "NAMESPACE/POD"},
		"no time at all":              {"status -timeout 0s", "-timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			args := strings.Fields(test.args)
			if len(args) > 1 {
				args = append(args, "-root", t.TempDir())
			}
			status, out, complaints := podvolumes(t, "", args...)
			assert.Equal(t, wrongUse, status)
			assert.Empty(t, out)
			assert.Contains(t, complaints, test.says)
		})
	}
}

func TestHelpIsNoMistake(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"-h"}, {"up", "-h"}} {
		assert.Contains(t, requireWell(t, "", args...), "usage:")
	}
}

func TestDownTakesAwayThePodsThatItIsToldTo(t *testing.T) {
	root := t.TempDir()
	requireWell(t, "", "up", "-f", "web.yaml", "-root", root)
	requireWell(t, "", "down", "-pod", "shop/web-0", "-root", root)
	left := requireWell(t, "", "status", "-root", root)
	assert.NotContains(t, left, "shop/web-0")
	assert.Contains(t, left, "shop/web-1")

	status, _, complaints := podvolumes(t, "", "down", "-pod", "shop/web-0", "-root", root)
	assert.Equal(t, allWell, status, "again")
	assert.Contains(t, complaints, "nothing is set up for pod shop/web-0")

	requireWell(t, "", "down", "-f", "web.yaml", "-root", root)
	requireNoFile(t, root)
}

func TestDownOfARootThatIsNotThereMakesNone(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	requireWell(t, "", "down", "-all", "-root", root)
	assert.NoDirExists(t, root)
}

func TestDownSaysWhatItLeaves(t *testing.T) {
	root := t.TempDir()
	requireWell(t, twoVolumes, "up", "-f", "-", "-root", root)
	theirs := filepath.Join(root, "pods/web-uid/notes")
	require.NoError(t, os.WriteFile(theirs, nil, 0o600))
	status, _, complaints := podvolumes(t, "", "down", "-all", "-root", root)
	assert.Equal(t, notServed, status)
	assert.Contains(t, complaints, "notes")
	assert.FileExists(t, theirs)
}

func TestTwoRunsOnOneRootWaitForEachOther(t *testing.T) {
	root := t.TempDir()
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			status := run(t.Context(), []string{"up", "-f", "web.yaml", "-root", root}, streams{out: &bytes.Buffer{}, err: &bytes.Buffer{}})
			assert.Equal(t, allWell, status)
		})
	}
	running.Wait()
	requireWell(t, "", "down", "-all", "-root", root)
	requireNoFile(t, root)
}

func TestTheShippedManifestsAreServed(t *testing.T) {
	root := t.TempDir()
	files := []string{"web.yaml"}
	if os.Geteuid() == 0 {
		files = append(files, "memory.yaml")
	}
	for _, file := range files {
		requireWell(t, "", "up", "-f", file, "-root", root)
	}
	requireWell(t, "", "status", "-root", root)
	requireWell(t, "", "down", "-all", "-root", root)
	requireNoFile(t, root)
}

func TestSizesAreWrittenAsKubernetesWritesThem(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 1023: "1023", 1024: "1Ki", 1536: "1.5Ki", 64 << 20: "64Mi", 3 << 40: "3Ti", 1<<63 - 1: "8Ei"} {
		assert.Equal(t, want, byteText(n))
	}
}

func TestTheTreeShowsTheMountsThatAreMissing(t *testing.T) {
	manifest := strings.Replace(imageBesideEmptyDir, "{name: cache, mountPath: /cache}", "{name: cache, mountPath: /cache, subPath: a}, {name: cache, mountPath: /both, mountPropagation: Bidirectional}", 1)
	root := t.TempDir()
	_, out, _ := podvolumes(t, manifest, "up", "-f", "-", "-root", root)
	assert.Contains(t, out, "/tools  tools, missing: the volume is not there")
	assert.Contains(t, out, `/both   cache, missing: mountPropagation Bidirectional needs a privileged container`)
	assert.Contains(t, out, `/cache  a in cache, read-write`)
	requireWell(t, "", "down", "-all", "-root", root)
}

func TestWhereNothingIsSetUpTheProgramSaysSo(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	assert.Contains(t, requireWell(t, "", "status", "-root", root), "nothing is set up in "+root)
	assert.Contains(t, requireWell(t, "", "down", "-all", "-root", root), "nothing is set up in "+root)
	status, _, complaints := podvolumes(t, "# nothing", "up", "-f", "-", "-root", root)
	assert.Equal(t, allWell, status)
	assert.Contains(t, complaints, "no pods")
}

func TestDownAllLeavesThePodsOfAKubeletAlone(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "pods/1111/volumes/kubernetes.io~empty-dir/data/file")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	status, _, complaints := podvolumes(t, "", "down", "-all", "-root", root)
	assert.Equal(t, notServed, status)
	assert.Contains(t, complaints, "did not make: pods")
	assert.FileExists(t, file)
}

func TestAnInterruptedUpSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	var stdout, stderr bytes.Buffer
	status := run(ctx, []string{"up", "-f", "web.yaml", "-root", t.TempDir()}, streams{out: &stdout, err: &stderr})
	assert.Equal(t, notServed, status)
	assert.Equal(t, "podvolumes up: interrupt signal received\n", stderr.String())
}

func TestDownNeverTakesAwayAnotherPodOfTheSameUID(t *testing.T) {
	root := t.TempDir()
	requireWell(t, twoVolumes, "up", "-f", "-", "-root", root)
	other := strings.Replace(twoVolumes, "name: web", "name: other", 1)
	status, _, complaints := podvolumes(t, other, "down", "-f", "-", "-root", root)
	assert.Equal(t, notServed, status)
	assert.Contains(t, complaints, "its UID web-uid is that of pod default/web")
	assert.Contains(t, requireWell(t, "", "status", "-root", root), "mounted")
	requireWell(t, "", "down", "-all", "-root", root)
}

func TestNothingFromAManifestControlsTheTerminal(t *testing.T) {
	for _, name := range []string{"name: \"c\\e[2J\"", "name: \"c\\u009b2J\"", "name: \"c\\u202e\""} {
		manifest := strings.Replace(twoVolumes, "name: nginx", name, 1)
		root := t.TempDir()
		status, out, complaints := podvolumes(t, manifest, "up", "-f", "-", "-root", root)
		assert.NotEqual(t, allWell, status)
		assert.NotContains(t, out+complaints, "\x1b")
		assert.NotContains(t, out+complaints, "\u009b")
		assert.NotContains(t, out+complaints, "\u202e")
		requireWell(t, "", "down", "-all", "-root", root)
	}
}

// parsedReport is what -o json writes, as far as the tests look at it.
type parsedReport struct {
	Pods []struct {
		Name    string
		Error   string
		Volumes []struct {
			Name, State, Error, Path string
			Usage                    struct{ UsedBytes, LimitBytes int64 }
		}
		Containers []struct {
			Mounts []struct{ Source, Destination string }
		}
	}
}

func TestDownSaysWhenTheNamesOfPodsAreLost(t *testing.T) {
	root := t.TempDir()
	requireWell(t, twoVolumes, "up", "-f", "-", "-root", root)
	require.NoError(t, os.Truncate(filepath.Join(root, "pods/web-uid/volumekit.json"), 9))
	status, _, complaints := podvolumes(t, "", "down", "-pod", "default/web", "-root", root)
	assert.Equal(t, notServed, status)
	assert.Contains(t, complaints, "the names of 1 pods are lost")
	requireWell(t, "", "down", "-all", "-root", root)
	requireNoFile(t, root)
}
