// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/mountns"
)

// build makes the program at a path, without the race detector.
func build(t *testing.T, program string) {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, string(output))
}

// asOrdinaryUser runs the program as a user without any privilege: itself, or a child where the tests run as root.
func asOrdinaryUser(t *testing.T, program, stdin string, args ...string) (status int, errors string) {
	t.Helper()
	manifest, err := os.Open(stdin)
	require.NoError(t, err)
	defer func() { _ = manifest.Close() }()
	cmd := exec.Command(program, args...)
	cmd.Stdin = manifest
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	err = cmd.Run()
	if _, exited := err.(*exec.ExitError); !exited {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), stderr.String()
}

func TestAnOrdinaryUserGetsWhatSuchAUserMayHave(t *testing.T) {
	dir, err := os.MkdirTemp("", "podvolumes") // t.TempDir is closed to other users
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o777))
	program := filepath.Join(dir, "podvolumes")
	build(t, program)
	root := filepath.Join(dir, "root")

	status, errors := asOrdinaryUser(t, program, "web.yaml", "up", "-f", "-", "-root", root)
	assert.Equal(t, allWell, status, errors)

	status, errors = asOrdinaryUser(t, program, "memory.yaml", "up", "-f", "-", "-root", root)
	assert.Equal(t, notServed, status)
	for _, volume := range []string{"frames", "shared", "buffers"} {
		assert.Regexp(t, `volume "`+volume+`" of pod default/encoder .*needs root`, errors)
	}

	status, errors = asOrdinaryUser(t, program, "web.yaml", "down", "-all", "-root", root)
	assert.Equal(t, allWell, status, errors)
	requireNoFile(t, root)
}

func TestAVolumeThatHangsIsNamedWhenTheTimeIsUp(t *testing.T) {
	mountns.RequirePrivate(t)
	dead := t.TempDir()
	mountns.DeadFUSE(t, dead)
	manifest := strings.Replace(twoVolumes, "hostPath: {path: /etc}", "hostPath: {path: "+dead+"/x, type: Directory}", 1)
	manifest = strings.Replace(manifest, "  volumes:\n", "  volumes:\n    - {name: tools, image: {reference: tools}}\n", 1)
	root := t.TempDir()
	status, out, complaints := podvolumes(t, manifest, "up", "-f", "-", "-root", root, "-timeout", "500ms")
	assert.Equal(t, notServed, status)
	assert.Regexp(t, `(?m)^standard input: .*volume "tools" of pod default/web: source image is not served here`, complaints)
	assert.Regexp(t, `(?m)^standard input: .*volume "etc" of pod default/web .*`+dead, complaints)
	assert.Contains(t, complaints, "gave up after 500ms (-timeout): 1 of 3 volumes are there; run the same command again")
	assert.Contains(t, out, "cache  mounted")
	requireWell(t, "", "down", "-all", "-root", root)
}
