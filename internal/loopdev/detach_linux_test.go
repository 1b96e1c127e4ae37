// SPDX-License-Identifier: Apache-2.0

package loopdev

import (
	"fmt"
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestADeviceThatBecameAnothersIsLeftAlone(t *testing.T) {
	first, second := image(t, 1<<20), image(t, 1<<20)
	for name, stale := range map[string]func(now Device) Device{
		"another file": func(now Device) Device {
			now.Backing, now.BackingName = idOf(t, first), ""
			return now
		},
		"another name of the same file": func(now Device) Device {
			now.BackingName = "before"
			return now
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := attachFor(t, second, Options{Name: "now"})
			require.NoError(t, h.Close())
			require.NoError(t, Detach(t.Context(), stale(h.Device)))
			found, err := Find(t.Context(), idOf(t, second))
			require.NoError(t, err)
			assert.Equal(t, []Device{h.Device}, found)
		})
	}
}

func TestADeviceInUseGoesWithItsLastUser(t *testing.T) {
	path := image(t, 1<<20)
	h := attachFor(t, path, Options{})
	require.NoError(t, Detach(t.Context(), h.Device))
	found, err := Find(t.Context(), idOf(t, path))
	require.NoError(t, err)
	require.Len(t, found, 1)
	assert.True(t, found[0].Autoclear)
	require.NoError(t, h.Close())
	requireDetached(t, idOf(t, path))
	require.NoError(t, Detach(t.Context(), h.Device))
	again, err := Open(h.Path)
	if err == nil { // it is another's by now
		require.NoError(t, again.Close())
		return
	}
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestAFileThatWasTruncatedAndDeletedIsFoundAndDetached(t *testing.T) {
	path := image(t, 1<<20)
	id := idOf(t, path)
	h := attachFor(t, path, Options{})
	require.NoError(t, h.Close())
	require.NoError(t, os.Truncate(path, 0))
	require.NoError(t, os.Remove(path))
	found, err := Find(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, []Device{h.Device}, found)
	require.NoError(t, Detach(t.Context(), found[0]))
	requireDetached(t, id)
}

func TestADeviceTakesOverTheSizeOfItsFile(t *testing.T) {
	path := image(t, 1<<20)
	h := attachFor(t, path, Options{})
	size := func() int64 {
		device, err := os.Open(h.Path)
		require.NoError(t, err)
		defer device.Close()
		n, err := device.Seek(0, 2)
		require.NoError(t, err)
		return n
	}
	require.Equal(t, int64(1<<20), size())
	require.NoError(t, os.Truncate(path, 3<<20))
	require.NoError(t, Refresh(t.Context(), h.Path))
	require.Equal(t, int64(3<<20), size())
	require.NoError(t, h.Close())
	require.NoError(t, Detach(t.Context(), h.Device))
	require.Error(t, Refresh(t.Context(), os.DevNull))
}

func TestALoopDeviceIsKnownByItsNumber(t *testing.T) {
	h := attachFor(t, image(t, 1<<20), Options{})
	var st unix.Stat_t
	require.NoError(t, unix.Stat(h.Path, &st))
	path, ok := IsLoop(st.Rdev)
	assert.True(t, ok)
	assert.Equal(t, h.Path, path)
	for _, number := range []uint64{unix.Mkdev(1, 3), unix.Mkdev(loopMajor, 1<<19), 0} {
		_, ok := IsLoop(number)
		assert.False(t, ok, fmt.Sprint(number))
	}
}

func TestNumbersOfDevicesAreReadFromTheirNames(t *testing.T) {
	for name, want := range map[string]int{"loop0": 0, "loop17": 17, "loop": -1, "loop1p1": -1, "sda": -1, "loop-control": -1} {
		got, ok := numberOf(name)
		assert.Equal(t, want >= 0, ok, name)
		if ok {
			assert.Equal(t, want, got, name)
		}
	}
}

func TestDeviceNumbersAreDecoded(t *testing.T) {
	for _, number := range [][2]uint32{{0, 0}, {7, 3}, {254, 255}, {259, 256}, {4095, 1<<20 - 1}} {
		major, minor := number[0], number[1]
		encoded := uint64(minor&0xff | major<<8 | (minor&^0xff)<<12)
		assert.Equal(t, unix.Mkdev(major, minor), decodeDevice(encoded), number)
	}
}
