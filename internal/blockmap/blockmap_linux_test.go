// SPDX-License-Identifier: Apache-2.0

package blockmap

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/loopdev"
	"github.com/volumekit/volumekit/internal/mounter"
	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
)

// newDevice makes a block device: a loop device of a file.
func newDevice(t testing.TB) (device loopdev.Device, image string) {
	t.Helper()
	mountns.RequirePrivate(t)
	image = filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 1<<20))
	h, err := loopdev.Attach(t.Context(), image, loopdev.Options{})
	require.NoError(t, err)
	require.NoError(t, h.Close())
	t.Cleanup(func() { assert.NoError(t, loopdev.Detach(t.Context(), h.Device)) })
	return h.Device, image
}

// mappingIn is where the kubelet would map the device of a volume.
func mappingIn(root, device string, pod types.UID) Mapping {
	return Mapping{Device: device, GlobalMapPath: filepath.Join(root, "plugins/test~disk/volumeDevices/pv-1"),
		PodDir: filepath.Join(root, "pods", string(pod), "volumeDevices/test~disk"), Name: "pv-1", PodUID: pod}
}

func requirePresence(t *testing.T, want volume.Presence, m Mapping) {
	t.Helper()
	got, err := Mapped(t.Context(), m)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// requireNothing finds no file below the root but the directories of pods, and no loop device of the mapping.
func requireNothing(t *testing.T, root string, m Mapping) {
	t.Helper()
	assert.NoDirExists(t, filepath.Join(root, "plugins"))
	links, err := filepath.Glob(filepath.Join(root, "pods/*/volumeDevices/*/*"))
	require.NoError(t, err)
	assert.Empty(t, links)
	assert.Empty(t, locksOf(t, m))
}

// locksOf are the loop devices that hold the device of the mapping.
func locksOf(t *testing.T, m Mapping) []loopdev.Device {
	t.Helper()
	name, err := m.lockName()
	require.NoError(t, err)
	held, err := loopdev.FindNamed(t.Context(), name)
	require.NoError(t, err)
	return held
}

func TestADeviceIsMappedAndTakenAway(t *testing.T) {
	device, _ := newDevice(t)
	root, mounter := t.TempDir(), mounter.New()
	m := mappingIn(root, device.Path, "uid-a")
	requirePresence(t, volume.Absent, m)
	lock, err := Map(t.Context(), mounter, m)
	require.NoError(t, err)
	requirePresence(t, volume.Present, m)
	target, err := os.Readlink(filepath.Join(root, "pods/uid-a/volumeDevices/test~disk/pv-1"))
	require.NoError(t, err)
	assert.Equal(t, device.Path, target)
	require.NoError(t, os.WriteFile(target, []byte("written"), 0o600))

	again, err := Map(t.Context(), mounter, m)
	require.NoError(t, err)
	assert.Equal(t, lock, again)

	for range 3 {
		require.NoError(t, Unmap(t.Context(), mounter, m))
		requirePresence(t, volume.Absent, m)
		requireNothing(t, root, m)
	}
}

func TestTwoPodsHaveOneDevice(t *testing.T) {
	device, _ := newDevice(t)
	root, mounter := t.TempDir(), mounter.New()
	a, b := mappingIn(root, device.Path, "uid-a"), mappingIn(root, device.Path, "uid-b")
	for _, m := range []Mapping{a, b} {
		_, err := Map(t.Context(), mounter, m)
		require.NoError(t, err)
	}
	pods, err := Pods(a.GlobalMapPath)
	require.NoError(t, err)
	assert.Equal(t, []types.UID{"uid-a", "uid-b"}, pods)
	require.NoError(t, Unmap(t.Context(), mounter, a))
	requirePresence(t, volume.Absent, a)
	requirePresence(t, volume.Present, b)
	require.NoError(t, Unmap(t.Context(), mounter, b))
	requireNothing(t, root, b)
}

func TestADeviceThatIsMappedCannotGoAway(t *testing.T) {
	device, image := newDevice(t)
	root, mounter := t.TempDir(), mounter.New()
	m := mappingIn(root, device.Path, "uid-a")
	_, err := Map(t.Context(), mounter, m)
	require.NoError(t, err)
	require.NoError(t, loopdev.Detach(t.Context(), device))
	id, err := loopdev.FileIDOf(image)
	require.NoError(t, err)
	found, err := loopdev.Find(t.Context(), id)
	require.NoError(t, err)
	require.Len(t, found, 1, "it is to go at the last close, and the mapping holds it open")
	require.NoError(t, Unmap(t.Context(), mounter, m))
	found, err = loopdev.Find(t.Context(), id)
	require.NoError(t, err)
	assert.Empty(t, found)
	requireNothing(t, root, m)
}
