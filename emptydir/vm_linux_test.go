// SPDX-License-Identifier: Apache-2.0

//go:build vm

package emptydir

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/projectquota"
	"github.com/volumekit/volumekit/volume"
)

// The test of this file runs in the virtual machine of e2e/quota, which has disks of these names.
func TestInAVirtualMachineAHardLimitIsAProjectQuota(t *testing.T) {
	for fsType, makeIt := range map[string][]string{
		"ext4": {"mkfs.ext4", "-q", "-O", "quota,project", "-E", "quotatype=prjquota"},
		"xfs":  {"mkfs.xfs", "-q", "-f"},
	} {
		for name, options := range map[string]Options{"": {}, " with nosuid": {NoSUID: true}} {
			t.Run(fsType+name, func(t *testing.T) {
				begin(t)
				disk := "/dev/disk/" + fsType
				out, err := exec.Command(makeIt[0], append(makeIt[1:], disk)...).CombinedOutput()
				require.NoError(t, err, string(out))
				root := t.TempDir()
				require.NoError(t, unix.Mount(disk, root, fsType, 0, "prjquota"))
				t.Cleanup(func() { assert.NoError(t, unix.Unmount(root, 0)) })
				f := newFixture(t, limited)
				f.host.Root = filepath.Join(root, "root")
				f.path = f.host.PodVolumeDir(f.pod.UID, pluginName, f.spec.Name())
				options.HardLimits = true
				f.restart(options)

				f.wantPresence(volume.Absent)
				f.setUp()
				f.wantPresence(volume.Present)
				f.setUp()
				assert.EqualValues(t, 0o750, statOf(t, f.path).Mode&0o7777)
				assert.Len(t, mountsAt(t, f.path), len(options.flags()))
				f.write(f.path, "file")
				id, err := projectquota.ID(f.path)
				require.NoError(t, err)
				usage, err := projectquota.UsageOf(root, id)
				require.NoError(t, err)
				assert.EqualValues(t, 2<<20, usage.Limit)
				metrics := f.metrics()
				assert.EqualValues(t, 2<<20, metrics.Limit)
				assert.True(t, metrics.LimitEnforced)
				assert.EqualValues(t, 2, metrics.InodesUsed)

				// Killed before the limit was set, or lifted by hand.
				require.NoError(t, projectquota.Limit(root, id, 0, 0))
				f.wantPresence(volume.Absent)
				f.setUp()
				f.wantPresence(volume.Present)

				// The machine was booted.
				detach(f.path)
				f.restart(options)
				f.setUp()
				f.wantPresence(volume.Present)
				f.wantContent("file", "content")

				f.restart(Options{}) // what takes it away need not know
				f.tearDown()
				usage, err = projectquota.UsageOf(root, id)
				require.NoError(t, err)
				assert.Zero(t, usage.Limit)
				entries, err := os.ReadDir(filepath.Dir(f.path))
				require.NoError(t, err)
				assert.Empty(t, entries)
			})
		}
	}
}
