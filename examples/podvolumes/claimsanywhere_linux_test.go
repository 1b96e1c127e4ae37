// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/internal/syscallfault"
)

// claimsAnywhere is a pod whose claims become a file system on a device, a raw device, and a directory.
const claimsAnywhere = `
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: devices}, provisioner: volumekit.io/blockdev}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: directories}, provisioner: volumekit.io/hostpath}
---
apiVersion: v1
kind: Pod
metadata: {name: web, uid: web-uid}
spec:
  containers:
    - name: nginx
      volumeMounts: [{name: data, mountPath: /data}, {name: files, mountPath: /files}]
      volumeDevices: [{name: raw, devicePath: /dev/xvda}]
  volumes:
    - {name: data, persistentVolumeClaim: {claimName: data}}
    - {name: raw, persistentVolumeClaim: {claimName: raw}}
    - {name: files, persistentVolumeClaim: {claimName: files}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {storageClassName: devices, accessModes: [ReadWriteOnce], resources: {requests: {storage: 4Mi}}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: raw}, spec: {storageClassName: devices, volumeMode: Block, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: files}, spec: {storageClassName: directories, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}
`

// TestACommandThatIsKilledAnywhereLosesNoClaimAndLeavesNothing kills the commands at changes that are spread over all that they
// make, those of mkfs among them: nearly 50 for each command.
func TestACommandThatIsKilledAnywhereLosesNoClaimAndLeavesNothing(t *testing.T) {
	mountns.RequirePrivate(t)
	program := filepath.Join(t.TempDir(), "podvolumes")
	build(t, program)
	supervisor := syscallfault.New(t)
	use := func(t *testing.T, w *world) { w.requireWell(t, "up", "-f", "-") }
	for _, command := range []struct {
		name  string
		args  []string
		after func(*testing.T, *world)
	}{
		{"up", []string{"up", "-f", "-"}, nil},
		{"down", []string{"down", "-all"}, use},
		{"down with the claims", []string{"down", "-all", "-claims"}, use},
	} {
		t.Run(command.name, func(t *testing.T) {
			a := &anywhere{program: program, supervisor: supervisor, manifest: claimsAnywhere, args: command.args, after: command.after}
			requireGone := func(t *testing.T, w *world) {
				t.Helper()
				w.requireWell(t, "down", "-all", "-claims")
				requireNoFile(t, w.root)
				require.Empty(t, w.mounts(t))
				requireNoLoopDevice(t, w.dir)
			}
			w := a.newWorld(t)
			whole := w.supervised(t, nil, a.args...)
			require.Equal(t, allWell, whole.status.ExitCode(), whole.complaints)
			requireGone(t, w)
			const times = 47
			for i := range times {
				n := i * len(whole.calls) / times
				for _, again := range []bool{true, false} {
					t.Run(fmt.Sprintf("change %d, again %v", n, again), func(t *testing.T) {
						w := a.newWorld(t)
						ended := w.supervised(t, func(i int, _ syscallfault.Call) syscallfault.Verdict {
							if i == n {
								return syscallfault.Kill()
							}
							return syscallfault.Continue()
						}, a.args...)
						if n < len(ended.calls) {
							t.Logf("killed at %v", ended.calls[n])
						}
						if again {
							w.requireWell(t, a.args...)
							if command.after == nil {
								assert.Len(t, w.glob(t, "claims/*"), 3)
							}
						}
						requireGone(t, w)
					})
				}
			}
		})
	}
}
