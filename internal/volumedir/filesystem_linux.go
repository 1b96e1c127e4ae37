// SPDX-License-Identifier: Apache-2.0

package volumedir

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/abandon"
)

func kernelSaysTmpfs(ctx context.Context, path string) (bool, error) {
	// Whatever is mounted there may not answer.
	return abandon.Run(ctx, func() (bool, error) {
		var st unix.Statfs_t
		err := unix.Statfs(path, &st)
		for err == unix.EINTR {
			err = unix.Statfs(path, &st)
		}
		return uint32(st.Type) == unix.TMPFS_MAGIC, err // signed, and of 32 bits on some architectures
	})
}
