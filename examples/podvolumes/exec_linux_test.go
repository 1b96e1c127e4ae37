// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mountns"
)

const forExec = `
apiVersion: v1
kind: Pod
metadata: {name: web, uid: web-uid}
spec:
  containers:
    - name: main
      volumeMounts:
        - {name: cache, mountPath: /absent/deep/cache}
        - {name: cache, mountPath: /usr/share/absent-in-a-host, readOnly: true}
        - {name: cache, mountPath: /absent/part, subPath: a/b}
        - {name: cache, mountPath: /absent/noexec, bindMountOptions: [noexec]}
        - {name: host, mountPath: /absent/recursive, readOnly: true, recursiveReadOnly: Enabled}
        - {name: host, mountPath: /absent/plain, readOnly: true}
  volumes:
    - {name: cache, emptyDir: {}}
    - {name: host, hostPath: {path: HOST}}
`

// upForExec sets the pod up, with a tmpfs mounted below the hostPath, and returns the root.
func upForExec(t *testing.T) string {
	t.Helper()
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	host, root := t.TempDir(), t.TempDir()
	below := filepath.Join(host, "below")
	require.NoError(t, os.Mkdir(below, 0o755))
	require.NoError(t, unix.Mount("tmpfs", below, "tmpfs", 0, ""))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(below, 0)) })
	requireWell(t, strings.Replace(forExec, "HOST", host, 1), "up", "-f", "-", "-root", root)
	t.Cleanup(func() { // after t.Context has ended
		var complaints bytes.Buffer
		status := run(context.Background(), []string{"down", "-all", "-root", root}, streams{out: io.Discard, err: &complaints})
		assert.Equal(t, allWell, status, complaints.String())
	})
	return root
}

func TestExecShowsTheMountsOfAContainer(t *testing.T) {
	root := upForExec(t)
	for name, test := range map[string]struct {
		script    string
		status    int
		out, says string
	}{
		"what is written is in the volume at each of its places": {`echo x >/absent/deep/cache/f; cat /usr/share/absent-in-a-host/f`, 0, "x\n", ""},
		"a subPath is a directory of the volume":                 {`echo y >/absent/part/g; cat /absent/deep/cache/a/b/g`, 0, "y\n", ""},
		"a read-only mount cannot be written to":                 {`echo x >/usr/share/absent-in-a-host/f`, 2, "", "Read-only file system"},
		"nor can what is below a recursively read-only one":      {`echo x >/absent/recursive/below/f`, 2, "", "Read-only file system"},
		"but below one that is not":                              {`echo x >/absent/plain/below/f`, 0, "", ""},
		"nor can the host beside the volumes":                    {`echo x >/absent/f`, 2, "", "Read-only file system"},
		"noexec":                                                 {`cp /bin/true /absent/noexec/true && /absent/noexec/true`, 126, "", "ermission denied"},
		"the exit status is the command's":                       {`exit 7`, 7, "", ""},
		"or tells the signal":                                    {`kill -TERM $$`, 128 + 15, "", ""},
		"standard input is the command's":                        {`cat`, 0, "from standard input", ""},
		"the working directory is the root":                      {`pwd`, 0, "/\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, complaints := podvolumes(t, "from standard input", "exec", "default/web", "main", "-root", root, "--", "sh", "-c", test.script)
			assert.Equal(t, test.status, status, complaints)
			assert.Equal(t, test.out, out)
			assert.Contains(t, complaints, test.says)
		})
	}
	assert.FileExists(t, filepath.Join(root, "pods/web-uid/volumes/kubernetes.io~empty-dir/cache/a/b/g"))
	assert.NoDirExists(t, "/absent")
	assert.NoDirExists(t, "/usr/share/absent-in-a-host")
}

func TestExecSaysWhyTheCommandDoesNotRun(t *testing.T) {
	root := upForExec(t)
	for name, test := range map[string]struct {
		args   string
		status int
		says   string
	}{
		"no such pod":              {"exec default/other main -- true", notServed, "nothing is set up for pod default/other"},
		"no such container":        {"exec default/web other -- true", notServed, `no container "other": there are main`},
		"no such command":          {"exec default/web main -- no-such-command", notFound, "no-such-command"},
		"a command that is a file": {"exec default/web main -- /proc/version", notExecutable, "permission denied"},
		"no command":               {"exec default/web main", wrongUse, "-- COMMAND"},
		"no container":             {"exec default/web -- true", wrongUse, "NAMESPACE/POD CONTAINER"},
		"no namespace":             {"exec web main -- true", wrongUse, "NAMESPACE/POD"},
	} {
		t.Run(name, func(t *testing.T) {
			args := strings.Fields(test.args)
			args = append([]string{"exec", "-root", root}, args[1:]...)
			status, _, complaints := podvolumes(t, "", args...)
			assert.Equal(t, test.status, status)
			assert.Contains(t, complaints, test.says)
		})
	}
}

func TestExecNamesTheVolumeThatIsMissing(t *testing.T) {
	root := t.TempDir()
	_, _, _ = podvolumes(t, imageBesideEmptyDir, "up", "-f", "-", "-root", root)
	status, _, complaints := podvolumes(t, "", "exec", "default/mixed", "main", "-root", root, "--", "true")
	assert.Equal(t, notServed, status)
	assert.Contains(t, complaints, `volume "tools" at /tools: `)
	requireWell(t, "", "down", "-all", "-root", root)
}

func TestExecPassesSignalsOn(t *testing.T) {
	root := upForExec(t)
	program := filepath.Join(t.TempDir(), "podvolumes")
	build(t, program)
	for name, test := range map[string]struct {
		script string
		status int
	}{
		"to a command that acts on it": {`trap 'exit 9' TERM; echo ready; read x`, 9},
		"to one that does not":         {`echo ready; exec cat`, 128 + 15},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), program, "exec", "default/web", "main", "-root", root, "--", "sh", "-c", test.script)
			_, err := cmd.StdinPipe() // which nobody writes to
			require.NoError(t, err)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			ready, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "ready\n", ready)
			require.NoError(t, cmd.Process.Signal(unix.SIGTERM))
			_ = cmd.Wait()
			assert.Equal(t, test.status, cmd.ProcessState.ExitCode())
		})
	}
}

const forExecOfFiles = `
apiVersion: v1
kind: Pod
metadata: {name: web, uid: web-uid}
spec:
  containers:
    - name: main
      securityContext: {privileged: true}
      volumeMounts:
        - {name: file, mountPath: /absent/file}
        - {name: host, mountPath: /absent/options, bindMountOptions: [nosuid, nodev]}
        - {name: host, mountPath: /absent/both, mountPropagation: Bidirectional}
        - {name: host, mountPath: /absent/neither}
  volumes:
    - {name: file, hostPath: {path: HOST/file, type: File}}
    - {name: host, hostPath: {path: HOST}}
`

func TestExecShowsFilesAndOptionsAndPropagation(t *testing.T) {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	host, root := t.TempDir(), t.TempDir()
	require.NoError(t, unix.Mount(host, host, "", unix.MS_BIND, ""))
	require.NoError(t, unix.Mount("", host, "", unix.MS_SHARED, ""))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(host, unix.MNT_DETACH)) })
	for _, dir := range []string{"both", "neither"} {
		require.NoError(t, os.Mkdir(filepath.Join(host, dir), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(host, "file"), []byte("text\n"), 0o600))
	requireWell(t, strings.ReplaceAll(forExecOfFiles, "HOST", host), "up", "-f", "-", "-root", root)
	sh := func(script string) string {
		t.Helper()
		return requireWell(t, "", "exec", "default/web", "main", "-root", root, "--", "sh", "-c", script)
	}
	assert.Equal(t, "text\n", sh("cat /absent/file"))
	sh("echo more >>/absent/file")
	text, err := os.ReadFile(filepath.Join(host, "file"))
	require.NoError(t, err)
	assert.Equal(t, "text\nmore\n", string(text))
	assert.Regexp(t, `(?m)^\S+ \S+ \S+ \S+ /absent/options \S*nosuid,nodev`, sh("cat /proc/self/mountinfo"))

	sh("mount -t tmpfs made-inside /absent/both/both; mount -t tmpfs made-inside /absent/neither/neither")
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	assert.Contains(t, string(mounts), filepath.Join(host, "both")+" ")
	assert.NotContains(t, string(mounts), filepath.Join(host, "neither")+" ")
	require.NoError(t, unix.Unmount(filepath.Join(host, "both"), 0))
	requireWell(t, "", "down", "-all", "-root", root)
}

func TestExecGivesUpOnAServerThatIsDead(t *testing.T) {
	mountns.RequirePrivate(t)
	dead, root := t.TempDir(), t.TempDir()
	manifest := strings.Replace(strings.Replace(forExec, "HOST", dead, 1), "mountPath: /absent/plain,", "mountPath: /absent/plain, subPath: a,", 1)
	requireWell(t, manifest, "up", "-f", "-", "-root", root)
	mountns.DeadFUSE(t, dead)
	status, _, complaints := podvolumes(t, "", "exec", "default/web", "main", "-root", root, "-timeout", "300ms", "--", "true")
	assert.Equal(t, notServed, status)
	assert.Contains(t, complaints, "gave up after 300ms (-timeout)")
	requireWell(t, "", "down", "-all", "-root", root)
}

func TestAnOrdinaryUserMaySeeTheMountsToo(t *testing.T) {
	dir, err := os.MkdirTemp("", "podvolumes") // t.TempDir is closed to other users
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o777))
	program, root := filepath.Join(dir, "podvolumes"), filepath.Join(dir, "root")
	build(t, program)
	manifest := filepath.Join(dir, "pod.yaml")
	require.NoError(t, os.WriteFile(manifest, []byte(strings.Replace(forExec, "HOST", dir, 1)), 0o644))
	status, complaints := asOrdinaryUser(t, program, manifest, "up", "-f", "-", "-root", root)
	require.Equal(t, allWell, status, complaints)
	status, complaints = asOrdinaryUser(t, program, manifest, "exec", "default/web", "main", "-root", root, "--",
		"sh", "-c", "echo x >/absent/part/f && ! echo x >/usr/share/absent-in-a-host/f")
	assert.Equal(t, allWell, status, complaints)
	assert.Contains(t, complaints, "Read-only file system")
	assert.FileExists(t, filepath.Join(root, "pods/web-uid/volumes/kubernetes.io~empty-dir/cache/a/b/f"))
	status, complaints = asOrdinaryUser(t, program, manifest, "down", "-all", "-root", root)
	assert.Equal(t, allWell, status, complaints)
}
