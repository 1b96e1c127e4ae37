// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/loopdev"
	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
)

func TestOnlyWhatWasProvisionedHereIsDeleted(t *testing.T) {
	w := newWorkshop(t, nil)
	pv := w.mustProvision(t, "pvc-data", rawClaimOf("1Mi"))
	other := w.mustProvision(t, "pvc-other", rawClaimOf("1Mi"))
	for name, change := range map[string]func(*v1.PersistentVolume){
		"no annotation": func(pv *v1.PersistentVolume) { pv.Annotations = nil },
		"another provisioner": func(pv *v1.PersistentVolume) {
			pv.Annotations["pv.kubernetes.io/provisioned-by"] = "volumekit.io/hostpath"
		},
		"another's device":      func(pv *v1.PersistentVolume) { pv.Spec.Local.Path = other.Spec.Local.Path },
		"another's name":        func(pv *v1.PersistentVolume) { pv.Name = other.Name },
		"a path that goes up":   func(pv *v1.PersistentVolume) { pv.Spec.Local.Path = w.base + "/x/../pvc-data.img" },
		"outside the base path": func(pv *v1.PersistentVolume) { pv.Spec.Local.Path = filepath.Dir(w.base) + "/pvc-data.img" },
		"below where it is":     func(pv *v1.PersistentVolume) { pv.Spec.Local.Path = w.base + "/deeper/pvc-data.img" },
		"its record":            func(pv *v1.PersistentVolume) { pv.Spec.Local.Path = w.base + "/" + recordsDir + "/pvc-data.img" },
		"no local source":       func(pv *v1.PersistentVolume) { pv.Spec.Local = nil },
		"another node": func(pv *v1.PersistentVolume) {
			pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] = "node-2"
		},
		"a hostile name": func(pv *v1.PersistentVolume) { pv.Name = "../pvc-data" },
	} {
		t.Run(name, func(t *testing.T) {
			changed := pv.DeepCopy()
			change(changed)
			require.ErrorIs(t, w.delete(t.Context(), changed), volume.ErrInvalid)
			assert.FileExists(t, pv.Spec.Local.Path)
			assert.FileExists(t, other.Spec.Local.Path)
		})
	}
	require.NoError(t, w.delete(t.Context(), pv))
	assert.FileExists(t, other.Spec.Local.Path)
}

func TestADeviceInUseIsNotDeleted(t *testing.T) {
	mountns.RequirePrivate(t)
	w := newWorkshop(t, map[string]string{"scrubOnDelete": "true"})
	pv := w.mustProvision(t, "pvc-data", claimOf("8Mi"))
	before, err := os.ReadFile(pv.Spec.Local.Path)
	require.NoError(t, err)

	h, err := loopdev.Attach(t.Context(), pv.Spec.Local.Path, loopdev.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = loopdev.Detach(context.Background(), h.Device) })
	require.NoError(t, h.Close())
	err = w.delete(t.Context(), pv)
	require.ErrorIs(t, err, volume.ErrInUse)
	assert.ErrorContains(t, err, h.Path)
	require.NoError(t, loopdev.Detach(t.Context(), h.Device))
	after, err := os.ReadFile(pv.Spec.Local.Path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(before, after))

	spec := volume.NewSpecFromPersistentVolume(pv, false)
	require.NoError(t, mountDevice(t, w.plugin, spec))
	require.ErrorIs(t, w.delete(t.Context(), pv), volume.ErrInUse)
	unmountDevice(t, w.plugin, spec)
	require.NoError(t, w.delete(t.Context(), pv))
	assert.Empty(t, filesBelow(t, w.base))
}

func unmountDevice(t *testing.T, p *Plugin, spec *volume.Spec) {
	t.Helper()
	u, err := p.NewDeviceUnmounter()
	require.NoError(t, err)
	require.NoError(t, u.UnmountDevice(t.Context(), p.deviceMountPath(spec)))
}

func TestAMissingBasePathIsNotTakenForADeletedDevice(t *testing.T) {
	w := newWorkshop(t, nil)
	pv := w.mustProvision(t, "pvc-data", rawClaimOf("1Mi"))
	away := w.base + "-away"
	require.NoError(t, os.Rename(w.base, away))
	require.ErrorIs(t, w.delete(t.Context(), pv), fs.ErrNotExist)
	require.NoError(t, os.Rename(away, w.base))
	require.NoError(t, w.delete(t.Context(), pv))
}

func TestAScrubLeavesNothingOfTheDataAndWritesToNoHole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "image")
	const size = 3 * scrubbed
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(size))
	secret := bytes.Repeat([]byte("secret! "), 1<<17) // 1 MiB
	for _, at := range []int64{0, 12345, scrubbed - 4096, size - int64(len(secret))} {
		_, err := f.WriteAt(secret, at)
		require.NoError(t, err)
	}
	require.NoError(t, f.Sync())
	before := allocatedBytes(t, path)
	require.NoError(t, scrub(t.Context(), f, size))
	assert.Less(t, allocatedBytes(t, path), before)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Len(t, content, size)
	assert.False(t, bytes.ContainsFunc(content, func(r rune) bool { return r != 0 }))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = f.WriteAt(secret, 0)
	require.NoError(t, err)
	require.ErrorIs(t, scrub(ctx, f, size), context.Canceled)
}

func TestAScrubbedDeviceIsOverwrittenOnTheDisk(t *testing.T) {
	mountns.RequirePrivate(t)
	secret := bytes.Repeat([]byte("secret! "), 1<<14)
	for scrubOnDelete, stays := range map[string]bool{"true": false, "false": true} {
		disk := newImage(t, filepath.Join(t.TempDir(), "disk"), 32<<20)
		runProgram(t, "mkfs.ext4", "-q", disk)
		dir := t.TempDir()
		require.NoError(t, unix.Mount(attachedDevice(t, disk), dir, "ext4", 0, ""))
		mounted := true
		t.Cleanup(func() {
			if mounted {
				assert.NoError(t, unix.Unmount(dir, 0))
			}
		})
		w := workshopIn(t, filepath.Join(dir, "base"), map[string]string{"scrubOnDelete": scrubOnDelete})
		pv := w.mustProvision(t, "pvc-data", rawClaimOf("1Mi"))
		overwrite(t, pv.Spec.Local.Path, 4096, secret)
		f, err := os.Open(pv.Spec.Local.Path)
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		require.NoError(t, f.Close())
		require.NoError(t, w.delete(t.Context(), pv))
		require.NoError(t, unix.Unmount(dir, 0))
		mounted = false
		content, err := os.ReadFile(disk)
		require.NoError(t, err)
		assert.Equal(t, stays, bytes.Contains(content, []byte("secret! secret! ")), "scrubOnDelete=%s", scrubOnDelete)
	}
}

func TestADeviceThatIsHalfDeletedIsNotGivenBack(t *testing.T) {
	w := newWorkshop(t, map[string]string{"scrubOnDelete": "true"})
	pv := w.mustProvision(t, "pvc-data", claimOf("8Mi"))
	ctx, cancel := context.WithCancel(t.Context())
	i, err := w.plugin.imageOf(pv)
	require.NoError(t, err)
	r, err := i.read()
	require.NoError(t, err)
	r.Deleting = true
	require.NoError(t, i.write(r))
	cancel()
	require.Error(t, w.delete(ctx, pv))
	_, err = w.provision(t.Context(), "pvc-data", claimOf("8Mi"))
	require.ErrorIs(t, err, volume.ErrInUse)
	_, err = w.expand(t, pv, "16Mi")
	require.ErrorIs(t, err, volume.ErrInvalid)
	require.NoError(t, w.delete(t.Context(), pv))
	assert.Empty(t, filesBelow(t, w.base))
}
