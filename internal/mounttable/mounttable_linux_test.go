// SPDX-License-Identifier: Apache-2.0

package mounttable

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/moby/sys/mountinfo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mountns"
)

func TestMain(m *testing.M) { os.Exit(mountns.Main(m)) }

func begin(t testing.TB) *Table {
	t.Helper()
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	table, err := New()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, table.Close()) })
	return table
}

func mountTmpfs(t testing.TB, dir, source string) {
	t.Helper()
	require.NoError(t, unix.Mount(source, dir, "tmpfs", 0, "size=64k"))
}

func unmount(t testing.TB, dir string) {
	t.Helper()
	require.NoError(t, unix.Unmount(dir, unix.UMOUNT_NOFOLLOW))
}

// points are the mount points with the number of mounts at each.
func points(t testing.TB, table *Table) map[string]int {
	t.Helper()
	mounts, err := table.Mounts()
	require.NoError(t, err)
	counts := make(map[string]int)
	for _, m := range mounts {
		counts[m.Point]++
	}
	return counts
}

// want fails the test unless the table says what the kernel's says.
func want(t testing.TB, table *Table) {
	t.Helper()
	infos, err := mountinfo.GetMounts(nil)
	require.NoError(t, err)
	counts := make(map[string]int)
	for _, info := range infos {
		counts[info.Mountpoint]++
	}
	assert.Equal(t, counts, points(t, table))
}

// both runs a test with either way to read.
func both(t *testing.T, test func(*testing.T, *Table)) {
	for name, byTable := range map[string]bool{"with listmount": false, "with mountinfo": true} {
		t.Run(name, func(t *testing.T) {
			table := begin(t)
			table.reader.byTable = byTable
			test(t, table)
		})
	}
}

func TestTheTableFollowsWhatHappens(t *testing.T) {
	both(t, func(t *testing.T, table *Table) {
		dir := t.TempDir()
		at := func(name string) string {
			path := filepath.Join(dir, name)
			require.NoError(t, os.MkdirAll(path, 0o755))
			return path
		}
		want(t, table)
		a, b := at("a"), at("b")
		for _, step := range []struct {
			what string
			do   func()
			a, b int
		}{
			{"mounted", func() { mountTmpfs(t, a, "one") }, 1, 0},
			{"mounted above", func() { mountTmpfs(t, a, "two") }, 2, 0},
			{"unmounted above", func() { unmount(t, a) }, 1, 0},
			{"moved", func() { require.NoError(t, unix.Mount(a, b, "", unix.MS_MOVE, "")) }, 0, 1},
			{"remounted", func() { require.NoError(t, unix.Mount("", b, "", unix.MS_REMOUNT|unix.MS_RDONLY, "")) }, 0, 1},
			{"bound", func() { require.NoError(t, unix.Mount(b, a, "", unix.MS_BIND, "")) }, 1, 1},
			{"unmounted", func() { unmount(t, a) }, 0, 1},
			{"replaced", func() { unmount(t, b); mountTmpfs(t, b, "three") }, 0, 1},
			{"detached in use", func() {
				file, err := os.Create(filepath.Join(b, "in use"))
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, file.Close()) })
				require.NoError(t, unix.Unmount(b, unix.MNT_DETACH))
			}, 0, 0},
		} {
			step.do()
			now := points(t, table)
			assert.Equal(t, step.a, now[a], step.what)
			assert.Equal(t, step.b, now[b], step.what)
			want(t, table)
		}
	})
}

func TestAMountIsDescribed(t *testing.T) {
	both(t, func(t *testing.T, table *Table) {
		dir := t.TempDir()
		mountTmpfs(t, dir, "the source")
		defer unmount(t, dir)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "a b", "target"), 0o755))
		target := filepath.Join(dir, "a b", "target")
		require.NoError(t, unix.Mount(filepath.Join(dir, "a b"), target, "", unix.MS_BIND, ""))
		defer unmount(t, target)
		mounts, err := table.Mounts()
		require.NoError(t, err)
		below, above := mounts[len(mounts)-2], mounts[len(mounts)-1]
		assert.Equal(t, dir, below.Point)
		assert.Equal(t, target, above.Point)
		assert.Equal(t, "/a b", above.Root)
		assert.Equal(t, "tmpfs", above.Type)
		assert.Equal(t, below.ID, above.Parent)
		assert.Equal(t, below.Device, above.Device)
		assert.Contains(t, []string{"the source", ""}, above.Source)
		info, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(target))
		require.NoError(t, err)
		assert.Equal(t, device(info[0].Major, info[0].Minor), above.Device)
	})
}

func TestNothingIsReadWhenNothingHasChanged(t *testing.T) {
	table := begin(t)
	dir := t.TempDir()
	before, err := table.Mounts()
	require.NoError(t, err)
	again, err := table.Mounts()
	require.NoError(t, err)
	assert.Same(t, &before[0], &again[0], "the slice of before")

	mountTmpfs(t, dir, "new")
	defer unmount(t, dir)
	after, err := table.Mounts()
	require.NoError(t, err)
	require.Len(t, after, len(before)+1)
	assert.Len(t, again, len(before), "what was handed out does not change")
	if !table.reader.byTable {
		for i := range before {
			assert.Same(t, before[i], after[i], "what is known is not asked for again")
		}
	}
}

func TestAfterAnErrorTheMountsAreReadAgain(t *testing.T) {
	table := begin(t)
	table.reader.current = false // as an error leaves it
	want(t, table)
	assert.True(t, table.reader.current)
}

func TestWatchTellsOfEachChangeAndLeavesTheTableItsOwn(t *testing.T) {
	table := begin(t)
	dir := t.TempDir()
	want(t, table)
	ctx, end := context.WithCancel(t.Context())
	changed, err := Watch(ctx)
	require.NoError(t, err)
	mountTmpfs(t, dir, "watched")
	<-changed
	assert.Equal(t, 1, points(t, table)[dir])
	unmount(t, dir)
	<-changed
	assert.Zero(t, points(t, table)[dir])
	end()
	for range changed { // until it is closed
	}
}

func TestWatchEndsWithAContextThatHasEnded(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	end()
	changed, err := Watch(ctx)
	require.NoError(t, err)
	for range changed {
	}
}

func BenchmarkMounts(b *testing.B) {
	for _, n := range []int{0, 10_000} {
		b.Run(strconv.Itoa(n)+" mounts", func(b *testing.B) {
			table := begin(b)
			root := b.TempDir()
			mountTmpfs(b, root, "crowd")
			b.Cleanup(func() { require.NoError(b, unix.Unmount(root, unix.MNT_DETACH)) })
			require.NoError(b, unix.Mount("", root, "", unix.MS_REMOUNT, "size=100m"))
			for i := range n {
				dir := filepath.Join(root, strconv.Itoa(i))
				require.NoError(b, os.Mkdir(dir, 0o755))
				require.NoError(b, unix.Mount(root, dir, "", unix.MS_BIND, ""))
			}
			dir := filepath.Join(root, "one")
			require.NoError(b, os.Mkdir(dir, 0o755))
			look := func(b *testing.B) {
				if _, err := table.Mounts(); err != nil {
					b.Fatal(err)
				}
			}
			look(b)
			b.Run("nothing changed", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					look(b)
				}
			})
			b.Run("one changed", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					require.NoError(b, unix.Mount(root, dir, "", unix.MS_BIND, ""))
					b.StartTimer()
					look(b)
					b.StopTimer()
					unmount(b, dir)
					look(b)
					b.StartTimer()
				}
			})
		})
	}
}
