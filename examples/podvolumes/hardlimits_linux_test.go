// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/volumekit/volumekit/internal/mountns"
)

const limitedEmptyDir = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: server, volumeMounts: [{name: cache, mountPath: /cache}]}]
  volumes:
    - {name: cache, emptyDir: {sizeLimit: 4Mi}}
    - {name: unlimited, emptyDir: {}}
`

func TestTheKernelEnforcesTheSizeLimitOfAnEmptyDirOnRequest(t *testing.T) {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	root := t.TempDir()
	for range 2 {
		requireWell(t, limitedEmptyDir, "up", "-f", "-", "-root", root, "-hard-limits")
	}
	const fill = "dd if=/dev/zero of=/cache/file bs=64k count=1000 2>&1; true"
	out := requireWell(t, "", "exec", "default/web", "server", "-root", root, "--", "sh", "-c", fill)
	assert.Regexp(t, "No space left on device|Disk quota exceeded", out)
	assert.Regexp(t, `cache .* 4\.?\d*Mi used of 4Mi \((image|project-quota)\)`, requireWell(t, "", "status", "-root", root))
	requireWell(t, limitedEmptyDir, "up", "-f", "-", "-root", root) // it keeps its limit without the flag
	assert.Regexp(t, `"limitedBy": "(image|project-quota)"`, requireWell(t, "", "status", "-o", "json", "-root", root))
	requireWell(t, "", "down", "-all", "-root", root)
	requireNoFile(t, root)
	requireNoLoopDevice(t, root)
}
