// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/mountns"
)

func TestAFaultyManifestLeavesTheLastGoodContentInForce(t *testing.T) {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	dir, root := t.TempDir(), t.TempDir()
	pod, secret, _ := strings.Cut(secretInPod, "---\n")
	write(t, filepath.Join(dir, "pod.yaml"), pod)
	write(t, filepath.Join(dir, "secret.yaml"), secret)
	file := filepath.Join(root, "pods/web-uid/volumes/kubernetes.io~secret/db/password")
	r := start(t, dir, root)
	awaitContent(t, r, file, "canary")

	write(t, filepath.Join(dir, "secret.yaml"), strings.Replace(secret, "stringData", "stringdata", 1))
	r.complaints.await(t, `secret\.yaml: .*unknown field "stringdata".*: what it held before stays in force`)
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "canary", string(content))

	// What another file says has its effect meanwhile, and nothing of the faulty one is lost.
	write(t, filepath.Join(dir, "pod.yaml"), strings.Replace(pod, "{name: db, secret", "{name: again, secret: {secretName: db}}, {name: db, secret", 1))
	awaitContent(t, r, filepath.Join(root, "pods/web-uid/volumes/kubernetes.io~secret/again/password"), "canary")

	write(t, filepath.Join(dir, "secret.yaml"), strings.Replace(secret, "canary", "canary 2", 1))
	awaitContent(t, r, file, "canary 2")
	assert.Equal(t, allWell, r.stop())
	assert.NotContains(t, r.out.String()+r.complaints.String(), "canary")
	requireWell(t, "", "down", "-all", "-root", root)
	requireNoFile(t, root)
}

func TestWhatComesLaterIsServedWithoutAWord(t *testing.T) {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	dir, root := t.TempDir(), t.TempDir()
	pod, secret, _ := strings.Cut(secretInPod, "---\n")
	write(t, filepath.Join(dir, "pod.yaml"), pod)
	r := start(t, dir, root)
	r.out.await(t, `^default/web db: set up: failed: Secret default/db does not exist`)
	write(t, filepath.Join(dir, "secret.yaml"), secret)
	r.out.await(t, `^default/web db: set up in`)

	// Gone from the manifests, it is still in the pod that runs.
	require.NoError(t, os.Remove(filepath.Join(dir, "secret.yaml")))
	r.out.await(t, `^default/web db: refresh: .*Secret default/db does not exist`)
	content, err := os.ReadFile(filepath.Join(root, "pods/web-uid/volumes/kubernetes.io~secret/db/password"))
	require.NoError(t, err)
	assert.Equal(t, "canary", string(content))

	require.NoError(t, os.Remove(filepath.Join(dir, "pod.yaml")))
	r.out.await(t, `^default/web: remove in`)
	assert.Equal(t, allWell, r.stop())
	requireNoFile(t, root)
}
