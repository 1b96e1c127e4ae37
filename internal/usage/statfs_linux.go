// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"context"
	"fmt"
	"math"
	"math/bits"

	"github.com/volumekit/volumekit/internal/abandon"
	"golang.org/x/sys/unix"
)

// Statfs tells how full the file system is that path is on. Symbolic links are followed.
//
// When ctx ends, Statfs returns its cause at once, even if the file system's server is gone; one goroutine is then left
// that ends when the system call does.
func Statfs(ctx context.Context, path string) (Stat, error) {
	return abandon.Run(ctx, func() (Stat, error) {
		var st unix.Statfs_t
		var err error = unix.EINTR
		for err == unix.EINTR {
			err = unix.Statfs(path, &st)
		}
		if err != nil {
			return Stat{}, fmt.Errorf("statfs %q: %w", path, err)
		}
		return statOf(&st), nil
	})
}

// statOf reads f_frsize as the unit of blocks, as statvfs(3) and df(1) do: FUSE and others tell in f_bsize the size in
// which they like to transfer data.
func statOf(st *unix.Statfs_t) Stat {
	unit := uint64(st.Frsize)
	if unit == 0 {
		unit = uint64(st.Bsize)
	}
	return Stat{
		Capacity:   product(st.Blocks, unit),
		Available:  product(st.Bavail, unit),
		Used:       product(st.Blocks-min(st.Bfree, st.Blocks), unit),
		Inodes:     product(st.Files, 1),
		InodesFree: product(st.Ffree, 1),
		InodesUsed: product(st.Files-min(st.Ffree, st.Files), 1),
	}
}

// product saturates: a file system that knows no bound of its size may claim any.
func product(a, b uint64) int64 {
	high, low := bits.Mul64(a, b)
	if high != 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(low)
}
