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

// claimsReport is what these tests read of -o json.
type claimsReport struct {
	Pods []struct {
		Name    string
		Volumes []struct{ Name, State, Error, PersistentVolume string }
	}
}

func volumesOf(t *testing.T, out string) map[string]string {
	t.Helper()
	var report claimsReport
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	names := make(map[string]string)
	for _, pod := range report.Pods {
		for _, v := range pod.Volumes {
			assert.Equal(t, "mounted", v.State, v.Error)
			names[pod.Name+" "+v.Name] = v.PersistentVolume
		}
	}
	return names
}

// inPod runs a shell script that sees what a container sees.
func inPod(t *testing.T, root, pod, script string) string {
	t.Helper()
	return requireWell(t, "", "exec", "default/"+pod, "server", "-root", root, "--", "sh", "-c", script)
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// loopDevices lists what the machine's loop devices are attached to.
func loopDevices(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	require.NoError(t, err)
	var files []string
	for _, path := range paths {
		if text, err := os.ReadFile(path); err == nil {
			files = append(files, strings.TrimSpace(string(text)))
		}
	}
	return files
}

func requireNoLoopDevice(t *testing.T, root string) {
	t.Helper()
	for _, file := range loopDevices(t) {
		require.NotContains(t, file, root)
	}
}

func TestTheClaimsOfAStatefulSetAreServedGrownKeptAndDeleted(t *testing.T) {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	root := t.TempDir()
	database := readFile(t, "database.yaml")
	first := volumesOf(t, requireWell(t, database, "up", "-f", "-", "-o", "json", "-root", root))
	require.Len(t, first, 6)

	inPod(t, root, "db-0", "echo kept > /var/lib/db/file; echo kept > /var/lib/archive/file; printf kept > /dev/log-device; sync")
	assert.Equal(t, "16777216\n", inPod(t, root, "db-0", "blockdev --getsize64 /dev/log-device"))
	size := func() string { return inPod(t, root, "db-0", "df --output=size -B1M /var/lib/db | tail -n1") }
	before := size()

	grown := strings.Replace(database, "storage: 512Mi", "storage: 768Mi", 1)
	grown = strings.Replace(grown, "storage: 16Mi", "storage: 32Mi", 1)
	assert.Equal(t, first, volumesOf(t, requireWell(t, grown, "up", "-f", "-", "-o", "json", "-root", root)))
	assert.Less(t, before, size())
	assert.Equal(t, "33554432\n", inPod(t, root, "db-0", "blockdev --getsize64 /dev/log-device"))
	assert.Equal(t, "kept\n", inPod(t, root, "db-0", "cat /var/lib/db/file"))

	out := requireWell(t, "", "down", "-all", "-root", root)
	assert.Contains(t, out, "the volumes of 6 claims stay (down -claims deletes them)")
	requireNoLoopDevice(t, root)

	assert.Equal(t, first, volumesOf(t, requireWell(t, grown, "up", "-f", "-", "-o", "json", "-root", root)))
	assert.Equal(t, "kept\nkept\nkept", inPod(t, root, "db-0", "cat /var/lib/db/file /var/lib/archive/file; head -c 4 /dev/log-device"))
	assert.FileExists(t, filepath.Join(root, "provisioned/hostpath/default/archive-db-0/file"))

	requireWell(t, "", "down", "-all", "-claims", "-root", root)
	requireNoFile(t, root)
	requireNoLoopDevice(t, root)
}

func TestAClaimThatCannotBeServedIsNamedAndTheRestIsServed(t *testing.T) {
	mountns.RequirePrivate(t)
	database := readFile(t, "database.yaml")
	for name, test := range map[string]struct{ old, replacement, says string }{
		"a parameter that there is not": {"{fsType: xfs}", "{fsType: xfs, compression: zstd}", `parameter "compression" is not known: there are directory, fsType, mkfsOptions, preallocate and scrubOnDelete`},
		"a size that is too small":      {"storage: 512Mi", "storage: 64Mi", "the file system xfs needs 300Mi at least"},
		"an option that forces":         {"{fsType: xfs}", `{fsType: xfs, mkfsOptions: "-f"}`, "nothing is ever forced"},
		"a pattern that leads away":     {"${.PVC.namespace}/${.PVC.name}", "../${.PVC.name}", `".."`},
		"an access mode":                {"accessModes: [ReadWriteOncePod]", "accessModes: [ReadWriteMany]", "access mode ReadWriteMany is not supported by blockdev"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			manifest := strings.Replace(database, test.old, test.replacement, 1)
			require.NotEqual(t, database, manifest)
			status, out, complaints := podvolumes(t, manifest, "up", "-f", "-", "-root", root)
			assert.Equal(t, notServed, status)
			assert.Contains(t, complaints, test.says)
			assert.Contains(t, out, "mounted")
			requireWell(t, "", "down", "-all", "-claims", "-root", root)
			requireNoFile(t, root)
			requireNoLoopDevice(t, root)
		})
	}
}

func TestNothingIsProvisionedForManifestsThatAreRefused(t *testing.T) {
	root := t.TempDir()
	manifest := strings.Replace(readFile(t, "database.yaml"), "name: data}", `name: "../data"}`, 1)
	status, _, complaints := podvolumes(t, manifest, "up", "-f", "-", "-root", root)
	assert.Equal(t, wrongUse, status, complaints)
	requireNoFile(t, root)
}

func TestAClaimGrowsOnlyIfItsClassAllowsIt(t *testing.T) {
	mountns.RequirePrivate(t)
	root := t.TempDir()
	database := strings.Replace(readFile(t, "database.yaml"), "allowVolumeExpansion: true\n", "", 1)
	requireWell(t, database, "up", "-f", "-", "-root", root)
	grown := strings.Replace(database, "storage: 512Mi", "storage: 768Mi", 1)
	status, _, complaints := podvolumes(t, grown, "up", "-f", "-", "-root", root)
	assert.Equal(t, notServed, status)
	assert.Contains(t, complaints, "claim default/data-db-0: it asks for 768Mi and has 512Mi: its StorageClass devices does not allow to expand it (allowVolumeExpansion)")
	requireWell(t, "", "down", "-all", "-claims", "-root", root)
	requireNoFile(t, root)
}

func TestDeletingAClaimHonoursItsReclaimPolicyAndWhoHasIt(t *testing.T) {
	mountns.RequirePrivate(t)
	root := t.TempDir()
	database := strings.Replace(readFile(t, "database.yaml"), "provisioner: volumekit.io/hostpath", "provisioner: volumekit.io/hostpath\nreclaimPolicy: Retain", 1)
	requireWell(t, database, "up", "-f", "-", "-root", root)
	other := `
apiVersion: v1
kind: Pod
metadata: {name: other}
spec:
  containers: [{name: main}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data-db-0}}]
---
` + database
	requireWell(t, other, "up", "-f", "-", "-root", root)
	manifest := filepath.Join(t.TempDir(), "database.yaml")
	require.NoError(t, os.WriteFile(manifest, []byte(database), 0o600))
	status, out, complaints := podvolumes(t, "", "down", "-f", manifest, "-claims", "-root", root)
	assert.Equal(t, notServed, status)
	assert.Contains(t, complaints, "claim default/data-db-0: its volume pvc-")
	assert.Contains(t, complaints, "stays, because pod default/other has it")
	assert.Contains(t, complaints, "note: claim default/archive-db-1 keeps its volume pvc-")
	assert.Contains(t, out, "the volumes of 3 claims are deleted")

	_, out, _ = podvolumes(t, "", "down", "-all", "-claims", "-root", root)
	assert.Contains(t, out, "the volumes of 1 claims are deleted")
	assert.DirExists(t, filepath.Join(root, "provisioned/hostpath/default/archive-db-0"))
	images, err := filepath.Glob(filepath.Join(root, "provisioned/blockdev/*"))
	require.NoError(t, err)
	assert.Empty(t, images)
	requireNoLoopDevice(t, root)
}

func TestTheClaimOfAnEphemeralVolumeGoesWithItsPod(t *testing.T) {
	mountns.RequirePrivate(t)
	root := t.TempDir()
	requireWell(t, `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: directories}
provisioner: volumekit.io/hostpath
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: main, volumeMounts: [{name: scratch, mountPath: /scratch}]}]
  volumes:
    - name: scratch
      ephemeral:
        volumeClaimTemplate:
          spec: {storageClassName: directories, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`, "up", "-f", "-", "-root", root)
	found, err := filepath.Glob(filepath.Join(root, "provisioned/hostpath/pvc-*"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	requireWell(t, "", "down", "-pod", "default/web", "-root", root)
	assert.NoDirExists(t, found[0])
	requireWell(t, "", "down", "-all", "-root", root)
	requireNoFile(t, root)
}
