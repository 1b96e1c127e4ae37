// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
)

// withOptions returns a plugin for ConfigMaps on the rig's host.
func (r *rig) withOptions(options Options) *Plugin {
	p := plugin(options, volume.SourceConfigMap).(*Plugin)
	require.NoError(r.t, p.Init(r.t.Context(), r.host))
	return p
}

func TestAVolumeOfOtherOptionsIsTornDownAndNotTakenForOnesOwn(t *testing.T) {
	mountns.RequirePrivate(t)
	for _, first := range []Options{{}, {OnDisk: true}} {
		r := newRig(t)
		require.NoError(t, r.store.Set(configMapOf(map[string]string{"a": "1"})))
		m, err := r.withOptions(first).NewMounter(specOf(settings()), r.pod)
		require.NoError(t, err)
		require.NoError(t, m.SetUp(t.Context(), volume.SetUpOptions{}))

		other := r.withOptions(Options{OnDisk: !first.OnDisk})
		again, err := other.NewMounter(specOf(settings()), r.pod)
		require.NoError(t, err)
		presence, _ := again.Presence(t.Context())
		assert.NotEqual(t, volume.Present, presence)
		if !first.OnDisk {
			err = again.SetUp(t.Context(), volume.SetUpOptions{})
			require.ErrorIs(t, err, volume.ErrInUse)
			assert.ErrorContains(t, err, "it was set up in memory: tear it down first")
		}
		u, err := other.NewUnmounter("files", r.pod.UID)
		require.NoError(t, err)
		require.NoError(t, u.TearDown(t.Context(), volume.TearDownOptions{}))
		assert.NoDirExists(t, m.Path())
	}
}

func TestATmpfsOfSomebodyElseOnAVolumeOnDiskIsLeft(t *testing.T) {
	mountns.RequirePrivate(t)
	r := newRig(t)
	require.NoError(t, r.store.Set(configMapOf(map[string]string{"a": "1"})))
	dir := r.setUp(settings())
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "precious"), nil, 0o600))
	u, err := r.plugins[volume.SourceConfigMap].NewUnmounter("files", r.pod.UID)
	require.NoError(t, err)
	require.ErrorIs(t, u.TearDown(t.Context(), volume.TearDownOptions{}), volume.ErrInUse)
	assert.FileExists(t, filepath.Join(dir, "precious"))
	require.NoError(t, unix.Unmount(dir, 0))
	require.NoError(t, u.TearDown(t.Context(), volume.TearDownOptions{}))
	assert.NoDirExists(t, dir)
}

func TestATmpfsDoesNotLetItsFilesBeMoreThanFiles(t *testing.T) {
	mountns.RequirePrivate(t)
	r := newRig(t)
	require.NoError(t, r.store.Set(configMapOf(map[string]string{"a": "1"})))
	p := r.withOptions(Options{})
	m, err := p.NewMounter(specOf(settings()), r.pod)
	require.NoError(t, err)
	require.NoError(t, m.SetUp(t.Context(), volume.SetUpOptions{}))
	var st unix.Statfs_t
	require.NoError(t, unix.Statfs(m.Path(), &st))
	assert.EqualValues(t, unix.TMPFS_MAGIC, st.Type)
	assert.NotZero(t, st.Flags&unix.ST_NOSUID)
	assert.NotZero(t, st.Flags&unix.ST_NODEV)
	assert.Zero(t, st.Flags&unix.ST_NOEXEC, "a config map can hold a script")
	u, err := p.NewUnmounter("files", r.pod.UID)
	require.NoError(t, err)
	require.NoError(t, u.TearDown(t.Context(), volume.TearDownOptions{}))
}
