// SPDX-License-Identifier: Apache-2.0

package hostpath_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
)

func TestTheKernelEnforcesTheLimitOfAProvisionedDirectory(t *testing.T) {
	mountns.RequirePrivate(t)
	f := newFixture(t, map[string]string{"hardLimit": "true", "mode": "0770", "gid": "4321"})
	small := claim("data")
	small.Spec.Resources.Requests["storage"] = resource.MustParse("4Mi")
	pv, err := f.provision(t, small)
	require.NoError(t, err)
	t.Cleanup(func() {
		deleter, err := f.plugin.NewDeleter()
		require.NoError(t, err)
		assert.NoError(t, deleter.Delete(context.Background(), pv))
		f.wantEmpty(t)
	})
	dir := pv.Spec.HostPath.Path
	info, err := os.Stat(dir)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o770), info.Mode().Perm())
	assert.EqualValues(t, 4321, info.Sys().(*syscall.Stat_t).Gid)
	fill := func(name string) int64 {
		file, err := os.Create(filepath.Join(dir, name))
		require.NoError(t, err)
		defer func() { _ = file.Close() }()
		var written int64
		for {
			n, err := file.Write(make([]byte, 64<<10))
			if written += int64(n); err != nil {
				require.ErrorIs(t, err, syscall.ENOSPC)
				return written
			}
		}
	}
	written := fill("first")
	assert.GreaterOrEqual(t, written, int64(4<<20))
	assert.Less(t, written, int64(6<<20))

	spec := volume.NewSpecFromPersistentVolume(pv, false)
	mounter, err := f.plugin.NewMounter(spec, nil)
	require.NoError(t, err)
	metrics, err := mounter.(volume.MetricsProvider).Metrics(t.Context())
	require.NoError(t, err)
	assert.True(t, metrics.LimitEnforced)
	assert.EqualValues(t, 4<<20, metrics.Limit)
	assert.NotEmpty(t, metrics.LimitedBy)

	// As after a reboot.
	if metrics.LimitedBy == "image" {
		require.NoError(t, unix.Unmount(dir, 0))
		presence, err := mounter.Presence(t.Context())
		require.NoError(t, err)
		assert.Equal(t, volume.Absent, presence)
	}
	require.NoError(t, mounter.SetUp(t.Context(), volume.SetUpOptions{}))
	assert.FileExists(t, filepath.Join(dir, "first"))
}
