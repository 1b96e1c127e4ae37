// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const secretInPod = `
apiVersion: v1
kind: Pod
metadata: {name: web, uid: web-uid}
spec:
  containers: [{name: main, volumeMounts: [{name: db, mountPath: /absent/db}]}]
  volumes: [{name: db, secret: {secretName: db, defaultMode: 0400}}]
---
{apiVersion: v1, kind: Secret, metadata: {name: db}, stringData: {password: canary}}
`

func TestAnOrdinaryUserIsServedContentOnDisk(t *testing.T) {
	dir, err := os.MkdirTemp("", "podvolumes") // t.TempDir is closed to other users
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o777))
	program, root, manifest := filepath.Join(dir, "podvolumes"), filepath.Join(dir, "root"), filepath.Join(dir, "pod.yaml")
	build(t, program)
	require.NoError(t, os.WriteFile(manifest, []byte(secretInPod), 0o644))

	status, complaints := asOrdinaryUser(t, program, manifest, "up", "-f", "-", "-root", root)
	assert.Equal(t, notServed, status)
	assert.Contains(t, complaints, `volume "db" of pod default/web`)
	assert.Contains(t, complaints, "-content-on-disk")
	assert.NotContains(t, complaints, "canary")

	well := func(args ...string) {
		t.Helper()
		status, complaints := asOrdinaryUser(t, program, manifest, append(args, "-root", root, "-content-on-disk")...)
		assert.Equal(t, allWell, status, complaints)
	}
	file := filepath.Join(root, "pods/web-uid/volumes/kubernetes.io~secret/db/password")
	well("up", "-f", "-")
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "canary", string(content))
	well("up", "-f", "-")
	well("status")
	status, complaints = asOrdinaryUser(t, program, manifest, "exec", "default/web", "main", "-root", root, "-content-on-disk", "--",
		"sh", "-c", `test "$(cat /absent/db/password)" = canary`)
	assert.Equal(t, allWell, status, complaints)
	well("down", "-all")
	requireNoFile(t, root)
}
