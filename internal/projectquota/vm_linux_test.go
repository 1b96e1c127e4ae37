// SPDX-License-Identifier: Apache-2.0

//go:build vm

package projectquota

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mountns"
)

// The tests of this file run in the virtual machine of e2e/quota, which has disks of these names.
var fileSystems = []struct {
	name string
	make []string
	full error // what who hits the limit is told
}{
	{"ext4", []string{"mkfs.ext4", "-q", "-O", "quota,project", "-E", "quotatype=prjquota"}, unix.EDQUOT},
	{"xfs", []string{"mkfs.xfs", "-q", "-f"}, unix.ENOSPC},
}

// each runs a test on each file system, in an empty directory of it.
func each(t *testing.T, test func(t *testing.T, dir string, full error)) {
	mountns.RequirePrivate(t)
	for _, fs := range fileSystems {
		t.Run(fs.name, func(t *testing.T) {
			disk := "/dev/disk/" + fs.name
			out, err := exec.Command(fs.make[0], append(fs.make[1:], disk)...).CombinedOutput()
			require.NoError(t, err, string(out))
			test(t, mount(t, disk, fs.name, "prjquota"), fs.full)
		})
	}
}

func mount(t *testing.T, disk, fsType, options string) string {
	root, err := os.MkdirTemp("/mnt", "") // where others get to
	require.NoError(t, err)
	require.NoError(t, unix.Mount(disk, root, fsType, 0, options))
	t.Cleanup(func() {
		assert.NoError(t, unix.Unmount(root, 0))
		assert.NoError(t, os.Remove(root))
	})
	dir := filepath.Join(root, "dir")
	require.NoError(t, os.MkdirAll(dir, 0o777))
	require.NoError(t, os.Chmod(dir, 0o777))
	return dir
}

// asNobody calls f on a thread that is another user's, and has none of root's capabilities.
func asNobody(t *testing.T, f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked, so that the thread ends
		const nobody = 65534
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			result <- fmt.Errorf("setresuid: %w", errno)
			return
		}
		result <- f()
	}()
	return <-result
}

// write writes a file of so many bytes.
func write(path string, size int) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = file.Write(make([]byte, size))
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

func give(t *testing.T, dir string, bytes, inodes uint64) (id uint32) {
	id, err := FreeID(dir)
	require.NoError(t, err)
	require.True(t, Ours(id))
	require.NoError(t, Set(dir, id, bytes, inodes))
	return id
}

func TestTheKernelEnforcesTheLimit(t *testing.T) {
	each(t, func(t *testing.T, dir string, full error) {
		require.NoError(t, Supported(dir))
		id := give(t, dir, 4<<20, 10)
		require.NoError(t, asNobody(t, func() error { return write(filepath.Join(dir, "a"), 3<<20) }))
		require.ErrorIs(t, asNobody(t, func() error { return write(filepath.Join(dir, "b"), 3<<20) }), full)
		usage, err := UsageOf(dir, id)
		require.NoError(t, err)
		assert.EqualValues(t, 4<<20, usage.Limit)
		assert.LessOrEqual(t, usage.Bytes, uint64(4<<20))
		assert.GreaterOrEqual(t, usage.Bytes, uint64(3<<20))
		assert.EqualValues(t, 3, usage.Inodes, "the directory and two files")
		assert.EqualValues(t, 10, usage.InodeLimit)

		require.NoError(t, Limit(dir, id, 8<<20, 10))
		require.NoError(t, asNobody(t, func() error { return write(filepath.Join(dir, "b"), 3<<20) }))

		err = asNobody(t, func() error {
			for n := range 20 {
				if err := write(filepath.Join(dir, fmt.Sprint("f", n)), 0); err != nil {
					return err
				}
			}
			return nil
		})
		require.ErrorIs(t, err, full)

		require.NoError(t, Limit(dir, id, 0, 0))
		require.NoError(t, asNobody(t, func() error { return write(filepath.Join(dir, "c"), 10<<20) }))
	})
}

func TestEverythingInTheDirectoryBelongsToTheProject(t *testing.T) {
	each(t, func(t *testing.T, dir string, _ error) {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub", "deep"), 0o700))
		outside := filepath.Join(filepath.Dir(dir), "outside")
		require.NoError(t, os.Mkdir(outside, 0o700))
		require.NoError(t, write(filepath.Join(outside, "file"), 1))
		require.NoError(t, write(filepath.Join(dir, "sub", "deep", "file"), 64<<10))
		require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link")))
		require.NoError(t, os.Symlink(filepath.Join(outside, "file"), filepath.Join(dir, "sub", "link")))
		require.NoError(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
		mounted := filepath.Join(dir, "mounted")
		require.NoError(t, os.Mkdir(mounted, 0o700))
		require.NoError(t, unix.Mount(outside, mounted, "", unix.MS_BIND, ""))
		t.Cleanup(func() { assert.NoError(t, unix.Unmount(mounted, 0)) })

		id := give(t, dir, 1<<30, 0)
		for path, expected := range map[string]uint32{"": id, "sub": id, "sub/deep": id, "sub/deep/file": id, "mounted": 0} {
			assert.Equal(t, expected, projectOf(t, filepath.Join(dir, path)), path)
		}
		for _, path := range []string{outside, filepath.Join(outside, "file"), filepath.Dir(dir)} {
			assert.Zero(t, projectOf(t, path), path)
		}
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub", "deep", "later"), 0o700))
		assert.Equal(t, id, projectOf(t, filepath.Join(dir, "sub", "deep", "later")))

		other := filepath.Join(dir, "other")
		require.NoError(t, os.Mkdir(other, 0o700))
		otherID := give(t, other, 1<<30, 0)
		require.NotEqual(t, id, otherID)

		require.NoError(t, Leave(dir, otherID)) // of another project
		assert.Equal(t, id, projectOf(t, dir))
		require.NoError(t, Leave(dir, id))
		assert.Zero(t, projectOf(t, dir))
		assert.Equal(t, id, projectOf(t, filepath.Join(dir, "sub")))
		require.NoError(t, Set(dir, id, 1<<30, 0))

		require.NoError(t, Clear(dir, id))
		for path, expected := range map[string]uint32{"": 0, "sub/deep/file": 0} {
			assert.Equal(t, expected, projectOf(t, filepath.Join(dir, path)), path)
		}
		require.NoError(t, os.Mkdir(filepath.Join(dir, "sub", "after"), 0o700))
		assert.Zero(t, projectOf(t, filepath.Join(dir, "sub", "after")))
	})
}

func projectOf(t *testing.T, path string) uint32 {
	file, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	a, err := attributesOf(int(file.Fd()))
	require.NoError(t, err)
	return a.project
}

func TestAnIDIsFreeUntilItHasAFileOrALimit(t *testing.T) {
	each(t, func(t *testing.T, dir string, _ error) {
		used := func(id uint32) bool {
			next := uint32(0)
			require.NoError(t, at(filepath.Dir(dir), func(fd int) (err error) {
				// An ext4 forgets a moment later, or when it is told to write all.
				const syncQuota = 0x800001
				if err := quotactl(fd, syncQuota, 0, nil); err != nil && !errors.Is(err, unix.ENOSYS) {
					return err
				}
				next, err = nextUsed(fd, id)
				return err
			}))
			return next == id
		}
		id, err := FreeID(dir)
		require.NoError(t, err)
		assert.False(t, used(id))

		require.NoError(t, Limit(dir, id, 1<<20, 0))
		assert.True(t, used(id), "a limit")
		require.NoError(t, Limit(dir, id, 0, 0))
		assert.False(t, used(id), "nothing")

		require.NoError(t, at(dir, func(fd int) error { return assign(fd, dir, id, true) }))
		assert.True(t, used(id), "a directory")
		require.NoError(t, os.Remove(dir))
		// An xfs takes away in the background what has been removed, and there is nothing to wait for.
		require.Eventually(t, func() bool { return !used(id) }, time.Minute, 10*time.Millisecond, "removed")
		usage, err := UsageOf(filepath.Dir(dir), id)
		require.NoError(t, err)
		assert.Zero(t, usage)
		last, err := UsageOf(filepath.Dir(dir), math.MaxInt32)
		require.NoError(t, err)
		assert.Zero(t, last)
	})
}

func TestWithoutQuotactlFDTheDeviceIsFound(t *testing.T) {
	each(t, func(t *testing.T, dir string, _ error) {
		id := give(t, dir, 1<<20, 7)
		require.NoError(t, at(dir, func(fd int) error {
			device, err := deviceOf(fd)
			if err != nil {
				return err
			}
			var byDevice, byDescriptor quota
			if err := quotactlDevice(device, getQuota, id, unsafe.Pointer(&byDevice)); err != nil {
				return err
			}
			if err := quotactlFD(fd, getQuota, id, unsafe.Pointer(&byDescriptor)); err != nil {
				return err
			}
			byDevice.id, byDescriptor.id = 0, 0
			assert.Equal(t, byDescriptor, byDevice)
			assert.EqualValues(t, 7, byDevice.inodeLimit)
			return nil
		}))
	})
}

func TestWithoutTheRightTheyAreNotSupported(t *testing.T) {
	each(t, func(t *testing.T, dir string, _ error) {
		require.ErrorIs(t, asNobody(t, func() error { return Supported(dir) }), errors.ErrUnsupported)
		require.ErrorIs(t, asNobody(t, func() error { return Limit(dir, FirstID, 1, 1) }), unix.EPERM)
	})
}

func TestWithoutTheMountOptionTheyAreNotSupported(t *testing.T) {
	mountns.RequirePrivate(t)
	for name, make := range map[string][]string{
		"ext4":                  {"mkfs.ext4", "-q", "-F"},
		"ext4 with the feature": {"mkfs.ext4", "-q", "-F", "-O", "quota,project", "-E", "quotatype=prjquota"},
		"xfs":                   {"mkfs.xfs", "-q", "-f"},
	} {
		t.Run(name, func(t *testing.T) {
			fsType := name[:min(len(name), 4)]
			if name == "xfs" {
				fsType = name
			}
			disk := "/dev/disk/" + fsType
			out, err := exec.Command(make[0], append(make[1:], disk)...).CombinedOutput()
			require.NoError(t, err, string(out))
			dir := mount(t, disk, fsType, "")
			err = Supported(dir)
			t.Log(err)
			require.ErrorIs(t, err, errors.ErrUnsupported)
			id, err := ID(dir)
			require.NoError(t, err)
			assert.Zero(t, id)
		})
	}
}
