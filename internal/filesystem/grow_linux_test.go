// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// capacity returns the size of the mounted file system in bytes.
func capacity(t *testing.T, dir string) int64 {
	t.Helper()
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &fs))
	return int64(fs.Blocks) * int64(fs.Bsize)
}

// maySpend says whether this process has CAP_SYS_RESOURCE.
func maySpend(t *testing.T) bool {
	t.Helper()
	var data [2]unix.CapUserData
	require.NoError(t, unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]))
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// enlarge makes the file and its loop device larger.
func enlarge(t *testing.T, path, device string, size int64) {
	t.Helper()
	require.NoError(t, os.Truncate(path, size))
	run(t, "losetup", "--set-capacity", device)
}

func TestAMountedFileSystemGrows(t *testing.T) {
	for _, fsType := range append([]string{"ext3"}, types...) {
		t.Run(fsType, func(t *testing.T) {
			path := image(t, roomy)
			device := loop(t, path)
			require.NoError(t, Make(t.Context(), nil, device, MakeOptions{Type: fsType}))
			dir := mounted(t, device, fsType)
			kept := filepath.Join(dir, "kept")
			require.NoError(t, os.WriteFile(kept, []byte("kept"), 0o600))
			before := capacity(t, dir)

			require.NoError(t, Grow(t.Context(), nil, device, dir, fsType), "it has its size already")
			assert.Equal(t, before, capacity(t, dir))

			enlarge(t, path, device, 2*roomy+4096)
			if fsType[0] == 'e' && !maySpend(t) {
				err := Grow(t.Context(), nil, device, dir, fsType)
				assert.ErrorIs(t, err, fs.ErrPermission)
				assert.ErrorContains(t, err, "CAP_SYS_RESOURCE")
				assert.Equal(t, before, capacity(t, dir))
				return
			}
			for range 2 {
				require.NoError(t, Grow(t.Context(), nil, device, dir, fsType))
				assert.Greater(t, capacity(t, dir), before+roomy*9/10)
				data, err := os.ReadFile(kept)
				require.NoError(t, err)
				assert.Equal(t, "kept", string(data))
			}
		})
	}
}

func TestAFileSystemGrowsThatIsNotMounted(t *testing.T) {
	for _, fsType := range append([]string{"ext2"}, types...) {
		t.Run(fsType, func(t *testing.T) {
			path := image(t, roomy)
			device := loop(t, path)
			require.NoError(t, Make(t.Context(), nil, device, MakeOptions{Type: fsType}))
			require.NoError(t, Grow(t.Context(), nil, device, "", fsType), "it has its size already")
			enlarge(t, path, device, 2*roomy)
			for range 2 {
				require.NoError(t, Grow(t.Context(), nil, device, "", fsType))
			}
			assert.Greater(t, capacity(t, mounted(t, device, fsType)), int64(roomy*18/10))
		})
	}
}

func TestAnExtGrowsInAFile(t *testing.T) {
	path := image(t, 64*mebi)
	require.NoError(t, Make(t.Context(), nil, path, MakeOptions{Type: "ext4"}))
	require.NoError(t, os.Truncate(path, 128*mebi))
	require.NoError(t, Grow(t.Context(), nil, path, "", "ext4"))
	assert.Regexp(t, `Block count: +131072`, run(t, "dumpe2fs", "-h", path))
	for _, fsType := range []string{"xfs", "btrfs"} {
		assert.ErrorIs(t, Grow(t.Context(), nil, path, "", fsType), ErrNeedsMount)
	}
}

func TestAFileSystemThatIsMountedElsewhereIsNotGrownAsIfItWereNot(t *testing.T) {
	for _, fsType := range types {
		path := image(t, roomy)
		device := loop(t, path)
		require.NoError(t, Make(t.Context(), nil, device, MakeOptions{Type: fsType}))
		mounted(t, device, fsType)
		enlarge(t, path, device, 2*roomy)
		assert.ErrorIs(t, Grow(t.Context(), nil, device, "", fsType), ErrInUse)
	}
}

func TestOnlyTheDeviceThatIsMountedThereGrows(t *testing.T) {
	for _, fsType := range types {
		device, other := loop(t, image(t, roomy)), loop(t, image(t, roomy))
		require.NoError(t, Make(t.Context(), nil, device, MakeOptions{Type: fsType}))
		dir := mounted(t, device, fsType)
		for _, wrong := range []struct{ device, dir string }{
			{other, dir}, {device, t.TempDir()}, {image(t, roomy), dir}, {"relative", dir}, {device, "relative"},
		} {
			assert.ErrorIs(t, Grow(t.Context(), nil, wrong.device, wrong.dir, fsType), ErrInvalid, wrong)
		}
		assert.ErrorIs(t, Grow(t.Context(), nil, device, dir, "vfat"), ErrInvalid)
	}
}

func TestADeviceThatIsSmallerThanItsFileSystemIsAnError(t *testing.T) {
	for _, fsType := range types {
		t.Run(fsType, func(t *testing.T) {
			path := image(t, 2*roomy)
			device := loop(t, path)
			require.NoError(t, Make(t.Context(), nil, device, MakeOptions{Type: fsType}))
			dir := mounted(t, device, fsType)
			before := capacity(t, dir)
			enlarge(t, path, device, roomy)
			assert.ErrorContains(t, Grow(t.Context(), nil, device, dir, fsType), "is smaller than the file system")
			assert.Equal(t, before, capacity(t, dir))
			enlarge(t, path, device, 2*roomy)
		})
	}
}

func TestTheKernelsStructuresHaveTheirSizes(t *testing.T) {
	assert.EqualValues(t, 112, unsafe.Sizeof(xfsGeometry{}))
	assert.EqualValues(t, 16, unsafe.Sizeof(xfsGrowth{}))
	assert.EqualValues(t, 1024, unsafe.Sizeof(btrfsFS{}))
	assert.EqualValues(t, 4096, unsafe.Sizeof(btrfsDevice{}))
	assert.EqualValues(t, 4096, unsafe.Sizeof(btrfsResize{}))
}
