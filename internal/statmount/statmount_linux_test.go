// SPDX-License-Identifier: Apache-2.0

package statmount

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mountns"
)

func TestMain(m *testing.M) { os.Exit(mountns.Main(m)) }

const everything = Superblock | Basic | RootPath | PointPath | TypeName | SourceName

// begin skips the test on a kernel before 6.8.
func begin(t *testing.T) {
	t.Helper()
	mountns.RequirePrivate(t)
	if _, err := List(nil); errors.Is(err, unix.ENOSYS) {
		t.Skip("needs Linux 6.8: ", err)
	}
}

func mountAt(t *testing.T, dir, source string) {
	t.Helper()
	require.NoError(t, unix.Mount(source, dir, "tmpfs", unix.MS_NOEXEC, "size=64k"))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

func TestBothSayWhatTheMountTableSays(t *testing.T) {
	begin(t)
	mountAt(t, t.TempDir(), "volume")
	table, err := mountinfo.GetMounts(nil)
	require.NoError(t, err)
	want := make(map[uint32]mountinfo.Info)
	for _, info := range table {
		want[uint32(info.ID)] = *info
	}

	ids, err := List(nil)
	require.NoError(t, err)
	assert.True(t, slices.IsSorted(ids))
	require.Len(t, ids, len(want))
	for _, id := range ids {
		m, err := Get(id, everything)
		require.NoError(t, err)
		info, ok := want[m.ShortID]
		require.True(t, ok, "mount %d", m.ShortID)
		assert.Equal(t, info.Mountpoint, m.Point)
		assert.Equal(t, info.Root, m.Root)
		assert.Equal(t, info.FSType, m.Type)
		assert.EqualValues(t, info.Major, m.Major)
		assert.EqualValues(t, info.Minor, m.Minor)
		assert.EqualValues(t, info.Parent, m.ShortParent)
		assert.Equal(t, strings.Contains(info.Options, "noexec"), m.Attributes&unix.MOUNT_ATTR_NOEXEC != 0)
		if m.Source != "" { // Linux 6.14
			assert.Equal(t, info.Source, m.Source)
		}
	}
}

func TestListGoesOnWhereItsBufferEnded(t *testing.T) {
	begin(t)
	dir := t.TempDir()
	for range 300 { // more than the first buffer
		mountAt(t, dir, "one of many")
	}
	ids, err := List(nil)
	require.NoError(t, err)
	table, err := mountinfo.GetMounts(nil)
	require.NoError(t, err)
	assert.Len(t, ids, len(table))
	slices.Sort(ids)
	assert.Len(t, slices.Compact(ids), len(table))
}

func TestLongPathsFit(t *testing.T) {
	begin(t)
	dir := t.TempDir()
	for len(dir) < 3500 {
		dir = filepath.Join(dir, strings.Repeat("d", 200))
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	mountAt(t, dir, "deep")
	ids, err := List(nil)
	require.NoError(t, err)
	m, err := Get(ids[len(ids)-1], everything)
	require.NoError(t, err)
	assert.Equal(t, dir, m.Point)
}

func TestWhatIsNotMountedIsNotFound(t *testing.T) {
	begin(t)
	dir := t.TempDir()
	mountAt(t, dir, "volume")
	ids, err := List(nil)
	require.NoError(t, err)
	last := ids[len(ids)-1]
	file, err := os.Create(filepath.Join(dir, "in use"))
	require.NoError(t, err)
	require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH))
	_, err = Get(last, Basic)
	assert.ErrorIs(t, err, unix.ENOENT)
	require.NoError(t, file.Close())
}
