// SPDX-License-Identifier: Apache-2.0

package hardlimit

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/projectquota"
)

// UsageOf tells how full dir is. The image's path is that of [Options]. The error matches [os.ErrNotExist] if dir has no limit that
// is enforced at this moment.
func UsageOf(ctx context.Context, dir, image string) (Usage, error) {
	if image == "" {
		image = ImagePath(dir)
	}
	found, err := find(ctx, dir, image)
	switch {
	case err != nil:
		return Usage{}, err
	case !found.Enforced():
		return Usage{}, fmt.Errorf("%s has no limit: %w", dir, os.ErrNotExist)
	case found.Kind == Project:
		return projectUsage(dir)
	}
	return imageUsage(dir)
}

func projectUsage(dir string) (Usage, error) {
	id, _, _, err := projectOf(dir)
	if err != nil {
		return Usage{}, err
	}
	usage, err := projectquota.UsageOf(dir, id)
	return Usage{Kind: Project, Bytes: usage.Bytes, Limit: usage.Limit, Inodes: usage.Inodes, InodeLimit: usage.InodeLimit}, err
}

// reservedInodes are those of an ext4 that are in use from the beginning, but for that of the root directory.
const reservedInodes = 10 - 1

func imageUsage(dir string) (Usage, error) {
	st, err := statfs(dir)
	if err != nil {
		return Usage{}, err
	}
	used := st.Blocks - min(st.Blocks, st.Bfree)
	inodes := st.Files - min(st.Files, st.Ffree)
	return Usage{
		Kind:       Image,
		Bytes:      used * uint64(st.Bsize),
		Limit:      roomIn(st.Blocks),
		Inodes:     inodes - min(inodes, reservedInodes),
		InodeLimit: st.Files - min(st.Files, reservedInodes),
	}, nil
}

// capacity returns how many bytes of files fit into the ext4 that is mounted on dir.
func capacity(dir string) (uint64, error) {
	st, err := statfs(dir)
	if err != nil {
		return 0, err
	}
	return roomIn(st.Blocks), nil
}

func statfs(dir string) (st unix.Statfs_t, err error) {
	if err := ignoringEINTR(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return st, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return st, nil
}
