// SPDX-License-Identifier: Apache-2.0

package hardlimit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestAnImageIsFullWhenItsLimitIsReached(t *testing.T) {
	for _, bytes := range []uint64{1, 64 << 10, 1 << 20, 5<<20 + 1, 100 << 20} {
		t.Run(fmt.Sprint(bytes), func(t *testing.T) {
			f := newFixture(t, bytes)
			require.Equal(t, Image, f.apply())
			require.Equal(t, Limit{Kind: Image, Complete: true, Mounted: true}, f.find())
			entries, err := os.ReadDir(f.dir)
			require.NoError(t, err)
			assert.Empty(t, entries)
			empty, err := UsageOf(t.Context(), f.dir, "")
			require.NoError(t, err)
			assert.Equal(t, Image, empty.Kind)
			assert.EqualValues(t, 1, empty.Inodes)
			assert.LessOrEqual(t, empty.Bytes, uint64(64<<10))
			assert.GreaterOrEqual(t, empty.Limit, bytes)

			written, err := full(filepath.Join(f.dir, "file"))
			require.NoError(t, err)
			t.Logf("%d bytes of %d were written (%+d)", written, bytes, written-bytes)
			assert.GreaterOrEqual(t, written, bytes)
			assert.LessOrEqual(t, written, bytes+bytes/50+512<<10)
			usage, err := UsageOf(t.Context(), f.dir, "")
			require.NoError(t, err)
			assert.EqualValues(t, 2, usage.Inodes)
			assert.GreaterOrEqual(t, usage.Bytes, written)
			f.remove()
		})
	}
}

func TestAnImageOccupiesWhatIsInIt(t *testing.T) {
	const mebibyte = 1 << 20
	f := newFixture(t, 1<<30)
	f.apply()
	empty := f.occupied()
	t.Logf("an empty image for %d bytes is %d bytes long and occupies %d", f.options.Bytes, f.length(), empty)
	assert.Less(t, empty, int64(2*mebibyte))
	f.write("file", string(make([]byte, 50*mebibyte)))
	f.sync()
	assert.Greater(t, f.occupied(), int64(50*mebibyte))
	require.NoError(t, os.Remove(filepath.Join(f.dir, "file")))
	f.sync()
	assert.Less(t, f.occupied(), int64(10*mebibyte), "what was deleted has left the image")
	f.remove()

	f.options.Preallocate, f.options.Bytes = true, 100*mebibyte
	f.apply()
	assert.GreaterOrEqual(t, f.occupied(), f.length())
	f.write("file", string(make([]byte, 50*mebibyte)))
	f.sync()
	require.NoError(t, os.Remove(filepath.Join(f.dir, "file")))
	f.sync()
	assert.GreaterOrEqual(t, f.occupied(), f.length(), "it is kept")
	f.remove()
}

func (f *fixture) stat() (st unix.Stat_t) {
	f.Helper()
	require.NoError(f, unix.Stat(f.image(), &st))
	return st
}

func (f *fixture) occupied() int64 { return f.stat().Blocks * 512 }
func (f *fixture) length() int64   { return f.stat().Size }

// sync waits until all that was changed is in the image.
func (f *fixture) sync() {
	f.Helper()
	dir, err := os.Open(f.dir)
	require.NoError(f, err)
	require.NoError(f, unix.Syncfs(int(dir.Fd())))
	require.NoError(f, unix.Syncfs(int(dir.Fd()))) // an ext4 discards after the commit
	require.NoError(f, dir.Close())
}

func TestWhatHasItsLimitIsLeftAlone(t *testing.T) {
	f := newFixture(t, 4<<20)
	f.apply()
	f.write("file", "content")
	require.NoError(t, os.Chmod(f.dir, 0o700)) // it is the pod's now
	before := f.devices()
	require.Len(t, before, 1)
	assert.True(t, before[0].Autoclear)

	f.apply()
	assert.Equal(t, before, f.devices())
	assert.Equal(t, 1, f.prepared)
	f.wantContent("file", "content")
	info, err := os.Stat(f.dir)
	require.NoError(t, err)
	assert.EqualValues(t, 0o700, info.Mode().Perm())
	f.remove()
	f.remove()
}

func TestAnImageIsMountedAgainAfterAReboot(t *testing.T) {
	f := newFixture(t, 4<<20)
	f.apply()
	f.write("file", "content")
	require.NoError(t, unix.Unmount(f.dir, 0))
	require.Empty(t, f.devices(), "the loop device went with the mount")
	require.Equal(t, Limit{Kind: Image, Complete: true}, f.find())
	_, err := UsageOf(t.Context(), f.dir, "")
	require.ErrorIs(t, err, os.ErrNotExist)

	f.apply()
	f.wantContent("file", "content")
	assert.Equal(t, 1, f.prepared)

	require.NoError(t, unix.Unmount(f.dir, 0))
	f.remove()
	info, err := os.Stat(f.dir)
	require.NoError(t, err)
	assert.True(t, info.IsDir())
}

func TestTheRootDirectoryIsAsItWasPrepared(t *testing.T) {
	f := newFixture(t, 1<<20)
	f.options.MountOptions = []string{"nosuid", "noexec"}
	f.apply()
	var st unix.Stat_t
	require.NoError(t, unix.Stat(f.dir, &st))
	assert.EqualValues(t, mode, st.Mode&0o7777)
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(f.dir, &fs))
	assert.EqualValues(t, unix.ST_NOSUID|unix.ST_NOEXEC, fs.Flags&(unix.ST_NOSUID|unix.ST_NOEXEC|unix.ST_NODEV))
	f.remove()
}

func TestWhatCouldNotBePreparedIsNotComplete(t *testing.T) {
	f := newFixture(t, 1<<20)
	broken := errors.New("broken on purpose")
	f.options.Prepare = func(*os.File) error { return broken }
	_, err := Apply(t.Context(), f.dir, f.options)
	require.ErrorIs(t, err, broken)
	assert.Equal(t, Limit{Kind: Image, Mounted: true}, f.find())
	f.options.Prepare = f.prepare
	f.apply()
	assert.Equal(t, 1, f.prepared)
	assert.True(t, f.find().Complete)
	f.remove()

	f.options.Prepare = func(*os.File) error { return broken }
	_, err = Apply(t.Context(), f.dir, f.options)
	require.ErrorIs(t, err, broken)
	f.remove()
}

func TestAnImageGrowsWhileItIsUsed(t *testing.T) {
	f := newFixture(t, 2<<20)
	f.apply()
	f.write("file", "content")
	if !mayGrowMounted(t) {
		f.options.Bytes = 300 << 20
		require.ErrorIs(t, Grow(t.Context(), f.dir, f.options), unix.EPERM)
		f.wantRoom(2 << 20)
		f.wantContent("file", "content")
		require.NoError(t, unix.Unmount(f.dir, 0))
		f.apply()
		f.wantRoom(300 << 20)
		f.remove()
		return
	}
	open, err := os.Open(filepath.Join(f.dir, "file"))
	require.NoError(t, err)
	for _, bytes := range []uint64{3 << 20, 64 << 20, 300 << 20} {
		f.options.Bytes = bytes
		require.NoError(t, Grow(t.Context(), f.dir, f.options))
		f.wantRoom(bytes)
		require.NoError(t, Grow(t.Context(), f.dir, f.options))
	}
	written, err := full(filepath.Join(f.dir, "large"))
	require.NoError(t, err)
	assert.GreaterOrEqual(t, written, uint64(299<<20))
	require.NoError(t, open.Close())
	f.wantContent("file", "content")
	f.remove()
}

// wantRoom wants there to be room for so much, and hardly any more.
func (f *fixture) wantRoom(bytes uint64) {
	f.Helper()
	usage, err := UsageOf(f.Context(), f.dir, f.options.Image)
	require.NoError(f, err)
	assert.GreaterOrEqual(f, usage.Limit, bytes)
	assert.LessOrEqual(f, usage.Limit, bytes+bytes/20+1<<20)
}

func TestAnImageGrowsWhenItIsMounted(t *testing.T) {
	f := newFixture(t, 2<<20)
	f.apply()
	f.write("file", "content")
	for _, bytes := range []uint64{3 << 20, 64 << 20, 300 << 20} {
		require.NoError(t, unix.Unmount(f.dir, 0))
		f.options.Bytes = bytes
		f.apply()
		f.wantRoom(bytes)
		f.wantContent("file", "content")
	}
	f.options.Bytes = 1 << 20
	require.NoError(t, unix.Unmount(f.dir, 0))
	f.apply()
	f.wantRoom(300 << 20) // it does not shrink
	written, err := full(filepath.Join(f.dir, "large"))
	require.NoError(t, err)
	assert.GreaterOrEqual(t, written, uint64(299<<20))
	f.remove()
}

// mayGrowMounted says whether the kernel lets this process grow an ext4 that is mounted.
func mayGrowMounted(t *testing.T) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	require.NoError(t, unix.Capget(&header, &data[0]))
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

func TestADirectoryWithFilesIsNotHidden(t *testing.T) {
	f := newFixture(t, 1<<20)
	f.write("file", "content")
	_, err := Apply(t.Context(), f.dir, f.options)
	require.ErrorIs(t, err, ErrInUse)
	assert.ErrorContains(t, err, f.dir)
	f.wantContent("file", "content")
	f.wantNothing()
}

func TestWhatElseIsMountedIsLeftAlone(t *testing.T) {
	f := newFixture(t, 1<<20)
	require.NoError(t, unix.Mount("tmpfs", f.dir, "tmpfs", 0, ""))
	_, err := Apply(t.Context(), f.dir, f.options)
	require.ErrorIs(t, err, ErrInUse)
	require.NoError(t, Remove(t.Context(), f.dir, f.options))
	require.NoError(t, unix.Unmount(f.dir, 0))

	f.apply()
	f.write("file", "content")
	require.NoError(t, unix.Mount("tmpfs", f.dir, "tmpfs", 0, ""))
	require.ErrorIs(t, Remove(t.Context(), f.dir, f.options), ErrInUse)
	require.NoError(t, unix.Unmount(f.dir, 0))
	f.wantContent("file", "content")
	f.remove()
}

func TestAnImageInUseIsNotDeleted(t *testing.T) {
	f := newFixture(t, 1<<20)
	f.apply()
	f.write("file", "content")
	open, err := os.Open(filepath.Join(f.dir, "file"))
	require.NoError(t, err)
	require.ErrorIs(t, Remove(t.Context(), f.dir, f.options), unix.EBUSY)
	f.wantContent("file", "content")
	require.NoError(t, open.Close())
	f.remove()
}

func TestAnImageThatIsMountedElsewhereTooIsNotAttachedTwice(t *testing.T) {
	f := newFixture(t, 1<<20)
	f.apply()
	f.write("file", "content")
	elsewhere := t.TempDir() // such as a container
	require.NoError(t, unix.Mount(f.dir, elsewhere, "", unix.MS_BIND, ""))
	require.NoError(t, unix.Unmount(f.dir, 0))
	f.apply()
	assert.Len(t, f.devices(), 1)
	f.wantContent("file", "content")
	require.NoError(t, unix.Unmount(elsewhere, 0))
	f.remove()
}

func TestTheImageMayBeAnywhere(t *testing.T) {
	f := newFixture(t, 1<<20)
	f.options.Image = filepath.Join(t.TempDir(), "an image, with a comma")
	f.apply()
	entries, err := os.ReadDir(filepath.Dir(f.dir))
	require.NoError(t, err)
	assert.Len(t, entries, 1)
	mounted, err := Mounted(t.Context(), f.dir, f.options.Image)
	require.NoError(t, err)
	assert.True(t, mounted)
	mounted, err = Mounted(t.Context(), f.dir, "")
	require.NoError(t, err)
	assert.False(t, mounted, "of this image nothing is known")
	require.NoError(t, Remove(t.Context(), f.dir, f.options))
	assert.NoFileExists(t, f.options.Image)
}

func TestWithoutAProjectQuotaThereIsAnImage(t *testing.T) {
	f := newFixture(t, 1<<20)
	// A tmpfs never has projects, whatever the machine's own file systems have.
	root := t.TempDir()
	require.NoError(t, unix.Mount("tmpfs", root, "tmpfs", 0, ""))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(root, 0)) })
	f.dir = filepath.Join(root, "volume")
	require.NoError(t, os.Mkdir(f.dir, 0o700))

	f.options.Only = Project
	_, err := Apply(t.Context(), f.dir, f.options)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	f.options.Only = None
	require.Equal(t, Image, f.apply())
	f.options.Only = Project
	require.Equal(t, Image, f.apply(), "what there is is kept")
	f.remove()
}

func TestNoLimitIsNoLimit(t *testing.T) {
	f := newFixture(t, 0)
	_, err := Apply(t.Context(), f.dir, f.options)
	require.ErrorContains(t, err, "the limit is 0")
	f.options.Bytes = 1 << 20
	require.ErrorIs(t, Grow(t.Context(), f.dir, f.options), os.ErrNotExist)
	_, err = UsageOf(t.Context(), f.dir, "")
	require.ErrorIs(t, err, os.ErrNotExist)
	f.remove()

	f.dir = filepath.Join(f.dir, "absent")
	_, err = Apply(t.Context(), f.dir, f.options)
	require.ErrorIs(t, err, os.ErrNotExist)
	f.remove()
}
