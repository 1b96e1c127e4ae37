// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"context"
	"io/fs"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/mountns"
	"golang.org/x/sys/unix"
)

func TestStatfsTellsTheSizeOfATmpfs(t *testing.T) {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	dir := t.TempDir()
	mount(t, "tmpfs", dir, "tmpfs", 0, "size=1m,nr_inodes=100")
	empty, err := Statfs(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, Stat{Capacity: 1 << 20, Available: 1 << 20, Inodes: 100, InodesFree: 99, InodesUsed: 1}, empty)
	write(t, filepath.Join(dir, "file"), 256<<10)
	full, err := Statfs(t.Context(), filepath.Join(dir, "file"))
	require.NoError(t, err)
	assert.Equal(t, Stat{
		Capacity: 1 << 20, Available: 768 << 10, Used: 256 << 10, Inodes: 100, InodesFree: 98, InodesUsed: 2,
	}, full)
}

func TestStatfsOfAnAbsentPathIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "absent")
	_, err := Statfs(t.Context(), path)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.ErrorContains(t, err, path)
}

func TestStatfsDoesNotWaitForAServerThatIsGone(t *testing.T) {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	dir := t.TempDir()
	kill := mountns.DeadFUSE(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() {
		_, err := Statfs(ctx, dir)
		result <- err
	}()
	cancel()
	assert.ErrorIs(t, <-result, context.Canceled) // a hang here is the failure
	kill()
}

func TestBlocksAreCountedInFragments(t *testing.T) {
	for name, test := range map[string]struct {
		st   unix.Statfs_t
		want Stat
	}{
		"a transfer size that is no block size": {
			unix.Statfs_t{Bsize: 1 << 20, Frsize: 4096, Blocks: 10, Bfree: 5, Bavail: 3, Files: 7, Ffree: 4},
			Stat{Capacity: 40960, Available: 12288, Used: 20480, Inodes: 7, InodesFree: 4, InodesUsed: 3},
		},
		"no fragment size": {
			unix.Statfs_t{Bsize: 4096, Blocks: 10, Bfree: 10, Bavail: 10},
			Stat{Capacity: 40960, Available: 40960},
		},
		"numbers that make no sense": {
			unix.Statfs_t{Frsize: 4096, Blocks: 1 << 60, Bfree: 1 << 61, Bavail: math.MaxUint64, Files: 1, Ffree: 2},
			Stat{Capacity: math.MaxInt64, Available: math.MaxInt64, Inodes: 1, InodesFree: 2},
		},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, test.want, statOf(&test.st)) })
	}
}
