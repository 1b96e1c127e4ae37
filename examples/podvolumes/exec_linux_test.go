// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"os"
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
	_, _, _ = podvolumes(t, configMapBesideEmptyDir, "up", "-f", "-", "-root", root)
	status, _, complaints := podvolumes(t, "", "exec", "default/mixed", "main", "-root", root, "--", "true")
	assert.Equal(t, notServed, status)
	assert.Contains(t, complaints, `volume "settings" at /settings: `)
	requireWell(t, "", "down", "-all", "-root", root)
}
