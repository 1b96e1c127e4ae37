// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
)

// TestOneFileIsMountedBelowManyRootsAtOnce has node agents that know nothing of each other meet a blank file.
func TestOneFileIsMountedBelowManyRootsAtOnce(t *testing.T) {
	mountns.RequirePrivate(t)
	image := newImage(t, filepath.Join(t.TempDir(), "image"), 64<<20)
	agents := make([]*Plugin, 4)
	var all sync.WaitGroup
	for i := range agents {
		agents[i] = newPlugin(t)
		all.Go(func() { assert.NoError(t, mountDevice(t, agents[i], localVolume(image, ""))) })
	}
	all.Wait()
	assert.Len(t, loopsOf(t, image), 1)
	pods := make([]string, len(agents))
	for i, p := range agents {
		pods[i] = setUp(t, p, localVolume(image, ""), "uid")
	}
	require.NoError(t, os.WriteFile(filepath.Join(pods[0], "file"), nil, 0o600))
	for i, p := range agents {
		assert.FileExists(t, filepath.Join(pods[i], "file"))
		refs, err := p.DeviceMountRefs(t.Context(), p.deviceMountPath(localVolume(image, "")))
		require.NoError(t, err)
		assert.Equal(t, []string{pods[i]}, refs, "others keep the device by themselves")
	}
}

// listener does something when somebody lists what is mounted.
type listener struct {
	mount.Interface
	listed func()
}

func (l listener) List() ([]mount.MountPoint, error) {
	l.listed()
	return l.Interface.List()
}

func TestAnFsckWhoseCallerWasKilledIsWaitedFor(t *testing.T) {
	mountns.RequirePrivate(t)
	image := newImage(t, filepath.Join(t.TempDir(), "image"), 64<<20)
	device := attachedDevice(t, image)
	for _, what := range []string{"blank", "formatted"} {
		fsck, err := os.OpenFile(device, os.O_RDWR|unix.O_EXCL, 0)
		require.NoError(t, err)
		p := newPlugin(t)
		waited := false
		p.host.Mounter = listener{p.host.Mounter, sync.OnceFunc(func() {
			waited = true
			assert.NoError(t, fsck.Close())
		})}
		require.NoError(t, mountDevice(t, p, localVolume(device, "")), what)
		assert.True(t, waited, what)
		require.NoError(t, deviceMounter{p}.UnmountDevice(t.Context(), p.deviceMountPath(localVolume(device, ""))))
	}
}

func TestWhatWasProvisionedIsNotFormattedAgain(t *testing.T) {
	mountns.RequirePrivate(t)
	for _, pattern := range []string{"", "below"} {
		base := t.TempDir()
		parameters := map[string]string{"directory": filepath.Join(base, pattern)}
		w := workshopIn(t, base, parameters)
		pv := w.mustProvision(t, "pv-1", claimOf("64Mi"))
		spec := volume.NewSpecFromPersistentVolume(pv, false)
		require.NoError(t, os.Remove(pv.Spec.Local.Path))
		newImage(t, pv.Spec.Local.Path, 64<<20)
		err := mountDevice(t, newPlugin(t), spec)
		require.ErrorIs(t, err, volume.ErrInvalid)
		assert.ErrorContains(t, err, filepath.Join(base, recordsDir, "pv-1.json"))
		assert.True(t, contentOf(t, pv.Spec.Local.Path).Blank)
		runProgram(t, "mkfs.ext4", "-q", pv.Spec.Local.Path)
		require.NoError(t, mountDevice(t, newPlugin(t), spec), "somebody has restored it")
	}
}
