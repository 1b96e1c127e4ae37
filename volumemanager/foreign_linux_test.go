// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/plugins"
	"github.com/volumekit/volumekit/volume"
)

func TestTearDownLeavesATmpfsThatSomebodyMountedOnAVolume(t *testing.T) {
	mountns.RequirePrivate(t)
	b := newRig(t, plugins.Default()...)
	status, err := b.SetUpPod(t.Context(), podWith("u1", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}))
	require.NoError(t, err)
	path := status.Volumes[0].Path
	require.NoError(t, unix.Mount("precious", path, "tmpfs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	gold := filepath.Join(path, "gold")
	require.NoError(t, os.WriteFile(gold, []byte("gold"), 0o600))

	err = b.TearDownPod(t.Context(), "u1")
	require.ErrorIs(t, err, volume.ErrInUse)
	assert.ErrorContains(t, err, path)
	assert.FileExists(t, gold)

	require.NoError(t, unix.Unmount(path, 0))
	require.NoError(t, b.TearDownPod(t.Context(), "u1"))
	b.requireEmpty()
}
