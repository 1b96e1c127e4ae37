// SPDX-License-Identifier: Apache-2.0

package blockmap

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/mount-utils"

	"github.com/volumekit/volumekit/internal/loopdev"
	"github.com/volumekit/volumekit/internal/mounter"
	"github.com/volumekit/volumekit/volume"
)

// mapped maps a new device.
func mapped(t *testing.T) (m Mapping, root, image string, lock loopdev.Device) {
	t.Helper()
	device, image := newDevice(t)
	root = t.TempDir()
	m = mappingIn(root, device.Path, "uid-a")
	t.Cleanup(func() { assert.NoError(t, Unmap(context.WithoutCancel(t.Context()), mounter.New(), m)) })
	lock, err := Map(t.Context(), mounter.New(), m)
	require.NoError(t, err)
	return m, root, image, lock
}

func TestUnmapFinishesWhatSomebodyElseBegan(t *testing.T) {
	const allGone = "all but the loop device is removed"
	for name, disturb := range map[string]func(t *testing.T, m Mapping, image string, lock loopdev.Device){
		"the file of the device is deleted": func(t *testing.T, _ Mapping, image string, _ loopdev.Device) {
			require.NoError(t, os.Remove(image))
		},
		"the file of the device is truncated": func(t *testing.T, _ Mapping, image string, _ loopdev.Device) {
			require.NoError(t, os.Truncate(image, 0))
		},
		"the link is gone": func(t *testing.T, m Mapping, _ string, _ loopdev.Device) { require.NoError(t, os.Remove(m.link())) },
		"the link leads elsewhere": func(t *testing.T, m Mapping, _ string, _ loopdev.Device) {
			require.NoError(t, os.Remove(m.link()))
			require.NoError(t, os.Symlink("/nowhere", m.link()))
		},
		"the hint is gone": func(t *testing.T, m Mapping, _ string, _ loopdev.Device) { require.NoError(t, os.Remove(m.hint())) },
		"the hint leads to a file": func(t *testing.T, m Mapping, image string, _ loopdev.Device) {
			require.NoError(t, os.Remove(m.hint()))
			require.NoError(t, os.Symlink(image, m.hint()))
		},
		"the hint leads to another loop device": func(t *testing.T, m Mapping, _ string, _ loopdev.Device) {
			require.NoError(t, os.Remove(m.hint()))
			require.NoError(t, os.Symlink(m.Device, m.hint()))
		},
		"the loop device is detached": func(t *testing.T, _ Mapping, _ string, lock loopdev.Device) {
			require.NoError(t, loopdev.Detach(t.Context(), lock))
		},
		"the node is unmounted": func(t *testing.T, m Mapping, _ string, _ loopdev.Device) {
			require.NoError(t, unix.Unmount(m.node(), unix.MNT_DETACH))
		},
		"the node is unmounted and removed": func(t *testing.T, m Mapping, _ string, _ loopdev.Device) {
			require.NoError(t, unix.Unmount(m.node(), unix.MNT_DETACH))
			require.NoError(t, os.Remove(m.node()))
		},
		allGone: func(t *testing.T, m Mapping, _ string, _ loopdev.Device) {
			require.NoError(t, unix.Unmount(m.node(), unix.MNT_DETACH))
			require.NoError(t, os.Remove(m.node()))
			require.NoError(t, os.Remove(m.hint()))
			require.NoError(t, os.Remove(m.link()))
			require.NoError(t, os.Remove(m.GlobalMapPath))
			require.NoError(t, os.RemoveAll(m.PodDir))
		},
		"the node is bound twice": func(t *testing.T, m Mapping, _ string, _ loopdev.Device) {
			require.NoError(t, unix.Mount(m.Device, m.node(), "", unix.MS_BIND, ""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, root, image, lock := mapped(t)
			disturb(t, m, image, lock)
			m.Device = ""
			for range 2 {
				require.NoError(t, Unmap(t.Context(), mounter.New(), m))
				requirePresence(t, volume.Absent, m)
			}
			assert.NoDirExists(t, filepath.Join(root, "plugins/test~disk/volumeDevices/pv-1"))
			assert.Empty(t, locksOf(t, m))
			assert.NoFileExists(t, m.link())
		})
		if name == allGone {
			continue // Map has no reason to look for a loop device where nothing is
		}
		t.Run(name+", and is mapped again", func(t *testing.T) {
			m, root, image, lock := mapped(t)
			disturb(t, m, image, lock)
			again, err := Map(t.Context(), mounter.New(), m)
			require.NoError(t, err)
			requirePresence(t, volume.Present, m)
			assert.Equal(t, []loopdev.Device{again}, locksOf(t, m))
			target, err := os.Readlink(m.link())
			require.NoError(t, err)
			assert.Equal(t, m.Device, target)
			require.NoError(t, Unmap(t.Context(), mounter.New(), m))
			requireNothing(t, root, m)
		})
	}
}

func TestWhatWasNeverMappedIsUnmapped(t *testing.T) {
	device, _ := newDevice(t)
	root := t.TempDir()
	require.NoError(t, Unmap(t.Context(), mounter.New(), mappingIn(root, device.Path, "uid-a")))
	require.NoError(t, Unmap(t.Context(), mounter.New(), mappingIn(filepath.Join(root, "absent"), "", "uid-a")))
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	assert.Empty(t, entries)
}

func TestWhatSomebodyElsePutThereIsNeitherFollowedNorRemoved(t *testing.T) {
	for name, put := range map[string]func(path, decoy string) error{
		"a link to a file":      func(path, decoy string) error { return os.Symlink(decoy, path) },
		"a link to nothing":     func(path, decoy string) error { return os.Symlink(decoy+"-absent", path) },
		"a file with something": func(path, _ string) error { return os.WriteFile(path, []byte("x"), 0o600) },
		"a directory":           func(path, _ string) error { return os.Mkdir(path, 0o700) },
		"a named pipe":          func(path, _ string) error { return unix.Mkfifo(path, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			device, _ := newDevice(t)
			m := mappingIn(t.TempDir(), device.Path, "uid-a")
			require.NoError(t, os.MkdirAll(m.GlobalMapPath, 0o700))
			decoy := filepath.Join(t.TempDir(), "decoy")
			require.NoError(t, os.WriteFile(decoy, nil, 0o600))
			require.NoError(t, put(m.node(), decoy))
			before, err := os.Lstat(m.node())
			require.NoError(t, err)

			_, err = Map(t.Context(), mounter.New(), m)
			require.ErrorIs(t, err, volume.ErrInUse)
			require.ErrorIs(t, Unmap(t.Context(), mounter.New(), m), volume.ErrInUse)
			after, err := os.Lstat(m.node())
			require.NoError(t, err)
			assert.True(t, os.SameFile(before, after))
			assert.NoFileExists(t, decoy+"-absent")
			assert.Empty(t, locksOf(t, m))
			info, err := os.Lstat(decoy)
			require.NoError(t, err)
			assert.True(t, info.Mode().IsRegular())
		})
	}
}

func TestALinkOfAnotherIsReplacedAndAFileInItsPlaceIsNot(t *testing.T) {
	device, _ := newDevice(t)
	root := t.TempDir()
	m := mappingIn(root, device.Path, "uid-a")
	require.NoError(t, os.MkdirAll(m.PodDir, 0o700))
	decoy := filepath.Join(t.TempDir(), "decoy")
	require.NoError(t, os.WriteFile(decoy, []byte("x"), 0o600))
	require.NoError(t, os.Symlink(decoy, m.link()))
	_, err := Map(t.Context(), mounter.New(), m)
	require.NoError(t, err)
	target, err := os.Readlink(m.link())
	require.NoError(t, err)
	require.Equal(t, device.Path, target)
	require.FileExists(t, decoy)
	require.NoError(t, Unmap(t.Context(), mounter.New(), m))

	require.NoError(t, os.WriteFile(m.link(), []byte("precious"), 0o600))
	_, err = Map(t.Context(), mounter.New(), m)
	require.ErrorIs(t, err, volume.ErrInUse)
	require.ErrorIs(t, Unmap(t.Context(), mounter.New(), m), volume.ErrInUse)
	require.FileExists(t, m.link())
	require.NoError(t, os.Remove(m.link()))
	require.NoError(t, Unmap(t.Context(), mounter.New(), m))
	requireNothing(t, root, m)
}

func TestADeviceIsGivenThroughLinks(t *testing.T) {
	device, image := newDevice(t)
	root, links := t.TempDir(), t.TempDir()
	link := filepath.Join(links, "by-id")
	require.NoError(t, os.Symlink(device.Path, link+"-1"))
	require.NoError(t, os.Symlink("by-id-1", link))
	m := mappingIn(root, link, "uid-a")
	_, err := Map(t.Context(), mounter.New(), m)
	require.NoError(t, err)
	target, err := os.Readlink(m.link())
	require.NoError(t, err)
	assert.Equal(t, device.Path, target)
	require.NoError(t, os.Remove(link))
	require.NoError(t, Unmap(t.Context(), mounter.New(), m))
	requireNothing(t, root, m)

	for _, path := range []string{image, link, os.DevNull, ""} {
		m.Device = path
		_, err := Map(t.Context(), mounter.New(), m)
		require.Error(t, err, path)
		requireNothing(t, root, m)
	}
}

func TestTheRootMayBeSpeltInAnotherWayLater(t *testing.T) {
	device, _ := newDevice(t)
	root := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(root, link))
	m, other := mappingIn(root, device.Path, "uid-a"), mappingIn(link, device.Path, "uid-a")
	lock, err := Map(t.Context(), mounter.New(), m)
	require.NoError(t, err)
	again, err := Map(t.Context(), mounter.New(), other)
	require.NoError(t, err)
	assert.Equal(t, lock, again)
	require.NoError(t, Unmap(t.Context(), mounter.New(), other))
	requireNothing(t, root, m)
}

func TestAnotherDeviceTakesThePlaceOfOneThatWentAway(t *testing.T) {
	m, root, _, lock := mapped(t)
	other, _ := newDevice(t)
	m.Device = other.Path
	now, err := Map(t.Context(), mounter.New(), m)
	require.NoError(t, err)
	assert.NotEqual(t, lock.Backing, now.Backing)
	requirePresence(t, volume.Present, m)
	assert.Equal(t, []loopdev.Device{now}, locksOf(t, m))
	target, err := os.Readlink(m.link())
	require.NoError(t, err)
	assert.Equal(t, other.Path, target)
	require.NoError(t, Unmap(t.Context(), mounter.New(), m))
	requireNothing(t, root, m)
}

func TestAHoldOnADeviceThatWasUnmountedByHandIsNotTakenForThatOfAnother(t *testing.T) {
	m, root, _, _ := mapped(t)
	require.NoError(t, unix.Unmount(m.node(), unix.MNT_DETACH))
	other, _ := newDevice(t)
	m.Device = other.Path
	now, err := Map(t.Context(), mounter.New(), m)
	require.NoError(t, err)
	id, err := loopdev.FileIDOf(other.Path)
	require.NoError(t, err)
	assert.Equal(t, id, now.Backing)
	assert.Equal(t, []loopdev.Device{now}, locksOf(t, m))
	require.NoError(t, Unmap(t.Context(), mounter.New(), m))
	requireNothing(t, root, m)
}

func TestAProcessThatHasTheDeviceOpenKeepsIt(t *testing.T) {
	m, root, _, _ := mapped(t)
	open, err := os.OpenFile(m.link(), os.O_RDWR, 0)
	require.NoError(t, err)
	defer open.Close()
	require.NoError(t, Unmap(t.Context(), mounter.New(), m))
	requireNothing(t, root, m)
	_, err = open.WriteAt([]byte("still there"), 0)
	require.NoError(t, err)
	require.NoError(t, open.Sync())
}

func TestAProcessThatHasTheBoundNodeOpenDelaysUnmap(t *testing.T) {
	m, root, _, _ := mapped(t)
	open, err := os.Open(m.node())
	require.NoError(t, err)
	require.ErrorIs(t, Unmap(t.Context(), mounter.New(), m), volume.ErrInUse)
	requirePresence(t, volume.Absent, m)
	pods, err := Pods(m.GlobalMapPath)
	require.NoError(t, err)
	assert.Equal(t, []types.UID{"uid-a"}, pods, "it is not gone")
	require.NoError(t, open.Close())
	require.NoError(t, Unmap(t.Context(), mounter.New(), m))
	requireNothing(t, root, m)
}

// lookedAt is a mounter that has somebody look at a loop device until the first attempt to unmount fails.
type lookedAt struct {
	mount.Interface
	open *os.File
	errs []error
}

func (l *lookedAt) Unmount(target string) error {
	err := l.Interface.Unmount(target)
	l.errs = append(l.errs, err)
	if l.open != nil {
		_ = l.open.Close()
		l.open = nil
	}
	return err
}

func TestWhoeverLooksAtTheLoopDeviceForAMomentDoesNotMakeUnmapFail(t *testing.T) {
	m, root, _, lock := mapped(t)
	open, err := os.Open(lock.Path)
	require.NoError(t, err)
	mounter := &lookedAt{Interface: mounter.New(), open: open}
	require.NoError(t, Unmap(t.Context(), mounter, m))
	require.NotEmpty(t, mounter.errs)
	require.ErrorIs(t, mounter.errs[0], unix.EBUSY, "the loop device is there until it is closed")
	requireNothing(t, root, m)
}

func TestManyPodsMapAndUnmapOneDeviceAtOnce(t *testing.T) {
	device, _ := newDevice(t)
	root := t.TempDir()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			m, mounter := mappingIn(root, device.Path, types.UID("uid-"+string(rune('a'+i)))), mounter.New()
			for range 5 {
				_, err := Map(t.Context(), mounter, m)
				assert.NoError(t, err)
				assert.NoError(t, Unmap(t.Context(), mounter, m))
			}
		})
	}
	wg.Wait()
	requireNothing(t, root, mappingIn(root, device.Path, "uid-a"))
}
