// SPDX-License-Identifier: Apache-2.0

package loopdev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mountns"
)

// requireDetached requires that nothing is attached to the file.
func requireDetached(t *testing.T, id FileID) {
	t.Helper()
	found, err := Find(context.WithoutCancel(t.Context()), id)
	require.NoError(t, err)
	require.Empty(t, found)
}

func idOf(t *testing.T, path string) FileID {
	t.Helper()
	id, err := FileIDOf(path)
	require.NoError(t, err)
	return id
}

func TestADeviceThatSomebodyHasOpenExclusivelyIsPassedOver(t *testing.T) {
	path := image(t, 1<<20)
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	require.NoError(t, err)
	defer control.Close()
	number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	require.NoError(t, err)
	taken, err := unix.Open(fmt.Sprintf("/dev/loop%d", number), unix.O_RDWR|unix.O_EXCL|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(taken)
	h := attachFor(t, path, Options{})
	assert.NotEqual(t, number, h.Number)
}

func TestFilesOfSeveralFileSystemsAreAttached(t *testing.T) {
	mountns.RequirePrivate(t)
	for _, kind := range []string{"ext4", "xfs", "tmpfs"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			source := "tmpfs"
			if kind != "tmpfs" {
				disk := image(t, 320<<20)
				output, err := exec.CommandContext(t.Context(), "mkfs."+kind, "-q", disk).CombinedOutput()
				require.NoError(t, err, string(output))
				source = attachFor(t, disk, Options{}).Path
			}
			require.NoError(t, unix.Mount(source, dir, kind, 0, ""))
			t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
			path := filepath.Join(dir, "image")
			require.NoError(t, os.WriteFile(path, nil, 0o600))
			require.NoError(t, os.Truncate(path, 1<<20))
			id := idOf(t, path)

			for _, o := range []Options{{}, {DirectIO: true}, {ReadOnly: true}, {ReadOnly: true, DirectIO: true}, {Autoclear: true}} {
				h := attachFor(t, path, o)
				assert.Equal(t, id, h.Backing)
				assert.Equal(t, o.ReadOnly, h.ReadOnly)
				assert.Equal(t, o.Autoclear, h.Autoclear)
				if !o.DirectIO {
					assert.False(t, h.DirectIO)
				} else if kind != "tmpfs" {
					assert.True(t, h.DirectIO)
				}
				device, err := os.OpenFile(h.Path, os.O_RDWR|unix.O_SYNC, 0)
				if err == nil {
					_, err = device.WriteAt([]byte(fmt.Sprint(o)), 4096)
					assert.NoError(t, device.Close())
				}
				assert.Equal(t, o.ReadOnly, err != nil, "%v", err)
				require.NoError(t, h.Close())
				if !o.Autoclear {
					require.NoError(t, Detach(t.Context(), h.Device))
				}
				requireDetached(t, id)
			}
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Contains(t, string(content[4096:4160]), fmt.Sprint(Options{Autoclear: true}))
		})
	}
}

func TestWhatCannotBeAttachedIsRefusedAndLeavesNothing(t *testing.T) {
	mountns.RequirePrivate(t)
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	before, err := attached()
	require.NoError(t, err)
	for name, path := range map[string]string{
		"nothing": filepath.Join(dir, "none"), "a directory": dir, "a named pipe": pipe, "a character device": os.DevNull,
	} {
		t.Run(name, func(t *testing.T) {
			for _, o := range []Options{{}, {ReadOnly: true}} {
				h, err := Attach(t.Context(), path, o)
				require.ErrorContains(t, err, path)
				require.Nil(t, h)
			}
		})
	}
	for _, number := range before {
		h, err := Open(fmt.Sprintf("/dev/loop%d", number))
		if err == nil {
			assert.NotContains(t, h.BackingName, dir)
			require.NoError(t, h.Close())
		}
	}
}

func TestAnEndedContextAttachesNothing(t *testing.T) {
	path := image(t, 1<<20)
	why := errors.New("why")
	ctx, end := context.WithCancelCause(t.Context())
	end(why)
	_, err := Attach(ctx, path, Options{})
	require.ErrorIs(t, err, why)
	_, err = Find(ctx, idOf(t, path))
	require.ErrorIs(t, err, why)
	requireDetached(t, idOf(t, path))
}

func TestAnEndedContextDoesNotKeepADeviceAttached(t *testing.T) {
	path := image(t, 1<<20)
	h := attachFor(t, path, Options{})
	ctx, end := context.WithCancel(t.Context())
	end()
	require.NoError(t, h.Close())
	require.NoError(t, Detach(ctx, h.Device))
	requireDetached(t, idOf(t, path))
}

func TestContextsThatEndAtAnyMomentLeaveNoDevice(t *testing.T) {
	path := image(t, 1<<20)
	id := idOf(t, path)
	for range 200 {
		ctx, end := context.WithCancel(t.Context())
		go end()
		h, err := Attach(ctx, path, Options{})
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
			continue
		}
		require.NoError(t, h.Close())
		require.NoError(t, Detach(t.Context(), h.Device))
	}
	require.Eventually(t, func() bool { // what was abandoned undoes itself
		found, err := Find(t.Context(), id)
		return err == nil && len(found) == 0
	}, 10e9, 1e6)
}

func TestADeadServerOfAFileIsWaitedForOnlyUntilTheContextEnds(t *testing.T) {
	mountns.RequirePrivate(t)
	dir := t.TempDir()
	kill := mountns.DeadFUSE(t, dir)
	ctx, end := context.WithCancelCause(t.Context())
	why := errors.New("why")
	go end(why)
	_, err := Attach(ctx, filepath.Join(dir, "image"), Options{})
	require.ErrorIs(t, err, why)
	kill()
}

func TestANameIsKeptByTheKernel(t *testing.T) {
	path := image(t, 1<<20)
	name := "test:" + strings.Repeat("x", 57)
	h := attachFor(t, path, Options{Name: name})
	assert.Equal(t, name, h.BackingName)
	found, err := FindNamed(t.Context(), name)
	require.NoError(t, err)
	assert.Equal(t, []Device{h.Device}, found)
}

func TestADeviceWithoutANodeIsNotTakenForOneThatIsNotAttached(t *testing.T) {
	path := image(t, 1<<20)
	h := attachFor(t, path, Options{})
	// A /dev of one's own has the nodes of all other devices that are attached, so that others' do not matter.
	dev := t.TempDir()
	numbers, err := attached()
	require.NoError(t, err)
	require.NoError(t, unix.Mount("tmpfs", dev, "tmpfs", 0, ""))
	for _, number := range numbers {
		if number != h.Number {
			node := fmt.Sprintf("%s/loop%d", dev, number)
			require.NoError(t, unix.Mknod(node, unix.S_IFBLK|0o600, int(unix.Mkdev(loopMajor, uint32(number)))))
		}
	}
	require.NoError(t, unix.Mount(dev, "/dev", "", unix.MS_MOVE, ""))
	unmount := func() { require.NoError(t, unix.Unmount("/dev", 0)) }
	mounted := true
	t.Cleanup(func() {
		if mounted {
			unmount()
		}
	})

	_, err = Find(t.Context(), idOf(t, path))
	require.Error(t, err)
	_, err = Open(h.Path)
	require.ErrorContains(t, err, "no node")
	require.NotErrorIs(t, err, fs.ErrNotExist)
	require.Error(t, Detach(t.Context(), h.Device))

	// A node of that name is that of another device.
	require.NoError(t, os.WriteFile(h.Path, nil, 0o600))
	require.Error(t, Detach(t.Context(), h.Device))
	_, err = Open(h.Path)
	require.ErrorContains(t, err, "no loop device")

	unmount()
	mounted = false
	require.NoError(t, h.Close())
	require.NoError(t, Detach(t.Context(), h.Device))
	requireDetached(t, idOf(t, path))
}
