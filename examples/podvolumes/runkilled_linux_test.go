// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/internal/syscallfault"
)

const runPod = `
apiVersion: v1
kind: Pod
metadata: {name: web, uid: web-uid}
spec:
  containers: [{name: nginx, volumeMounts: [{name: data, mountPath: /data}]}]
  volumes: [{name: data, emptyDir: {}}, {name: fast, emptyDir: {medium: Memory}}, {name: host, hostPath: {path: HOST/made, type: DirectoryOrCreate}}]
`

// goal ends a process when it has said something so many times.
type goal struct {
	cmd   *exec.Cmd
	says  string
	times int
	out   bytes.Buffer
}

func (g *goal) Write(p []byte) (int, error) {
	n, err := g.out.Write(p)
	if bytes.Count(g.out.Bytes(), []byte(g.says)) >= g.times {
		_ = g.cmd.Process.Signal(syscall.SIGTERM)
	}
	return n, err
}

func TestRunGoesOnWhereverItWasKilledAndTriesAgainWhateverFailed(t *testing.T) {
	mountns.RequirePrivate(t)
	program := filepath.Join(t.TempDir(), "podvolumes")
	build(t, program)
	supervisor := syscallfault.New(t)
	for name, phase := range map[string]struct {
		says  string
		times int
		down  bool
	}{
		"while it sets up":    {": set up in", 3, false},
		"while it tears down": {": remove in", 1, true},
	} {
		for _, verdict := range []string{"killed", "failing"} {
			t.Run(name+", "+verdict, func(t *testing.T) {
				t.Parallel()
				for n, disturbed := 0, true; disturbed; n++ {
					t.Run(fmt.Sprintf("change %d", n), func(t *testing.T) {
						dir, root, host := t.TempDir(), t.TempDir(), t.TempDir()
						manifest := strings.ReplaceAll(runPod, "HOST", host)
						if phase.down {
							requireWell(t, manifest, "up", "-f", "-", "-root", root)
						} else {
							write(t, filepath.Join(dir, "pod.yaml"), manifest)
						}
						cmd := exec.CommandContext(t.Context(), program, "run", "-f", dir, "-root", root, "-listen", "127.0.0.1:0")
						goal := &goal{cmd: cmd, says: phase.says, times: phase.times}
						cmd.Stdout = goal
						var complaints bytes.Buffer
						cmd.Stderr = &complaints
						calls, err := supervisor.Run(cmd, func(i int, _ syscallfault.Call) syscallfault.Verdict {
							switch {
							case i != n:
								return syscallfault.Continue()
							case verdict == "killed":
								return syscallfault.Kill()
							}
							return syscallfault.Fail([]syscall.Errno{syscall.ENOSPC, syscall.EIO, syscall.EBUSY, syscall.EMFILE}[n%4])
						})
						require.NoError(t, err)
						disturbed = n < len(calls)
						if !disturbed || verdict == "failing" {
							if disturbed {
								t.Logf("%v failed", calls[n])
							}
							require.True(t, cmd.ProcessState.Success(), "%s%s", &goal.out, &complaints)
						} else {
							t.Logf("killed at %v", calls[n])
						}
						r := start(t, dir, root)
						if phase.down {
							r.stop() // when it has told what it recovered
							r = start(t, dir, root)
							awaitEmpty(t, r, root)
						} else {
							for _, volume := range []string{"data", "fast", "host"} {
								r.out.await(t, `^default/web `+volume+`: set up in`)
							}
							assert.Contains(t, requireWell(t, "", "status", "-root", root), "fast  mounted")
							require.NoError(t, os.Remove(filepath.Join(dir, "pod.yaml")))
							r.out.await(t, `^default/web: remove in`)
						}
						assert.Equal(t, allWell, r.stop())
						requireNoFile(t, root)
					})
				}
			})
		}
	}
}

// awaitEmpty waits until nothing of a pod is left, be it that nothing was.
func awaitEmpty(t *testing.T, r *running, root string) {
	entries, err := os.ReadDir(filepath.Join(root, "pods"))
	if err == nil && len(entries) > 0 {
		r.out.await(t, `: remove in`)
	}
}
