// SPDX-License-Identifier: Apache-2.0

package volumedir

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"

	"k8s.io/mount-utils"

	"github.com/volumekit/volumekit/volume"
)

// WhyInUse says what keeps path from being unmounted.
func WhyInUse(mounter mount.Interface, path string, err error) error {
	if inside := mountsInside(mounter, path); len(inside) > 0 {
		return volume.Errorf(volume.ErrInUse,
			"cannot unmount %s, since there are mounts in it (%s), which have to be unmounted first: %w",
			path, strings.Join(inside, ", "), err)
	}
	if errors.Is(err, syscall.EBUSY) {
		return volume.Errorf(volume.ErrInUse,
			"cannot unmount %s, since a process has a file open in it or works in it: %w", path, err)
	}
	return fmt.Errorf("unmount %s: %w", path, err)
}

// IsTmpfs reports whether what is mounted at path is a tmpfs, and otherwise what it is, as far as the mounter's table knows. The
// table counts where the mounter is one that knows of mounts which the kernel has not.
func IsTmpfs(ctx context.Context, mounter mount.Interface, path string) (what string, is bool, err error) {
	if is, err = kernelSaysTmpfs(ctx, path); is || err != nil {
		return "a tmpfs", is, err
	}
	table, err := mounter.List()
	if err != nil {
		return "", false, err
	}
	what = "something"
	path = Resolve(path)
	for i := range table {
		if table[i].Path == path {
			what, is = fmt.Sprintf("%s (%s)", table[i].Device, table[i].Type), table[i].Type == "tmpfs"
		}
	}
	return what, is, nil
}

// mountsInside returns the first mount points below path, of which the caller has found that it is in use.
func mountsInside(mounter mount.Interface, path string) []string {
	table, err := mounter.List()
	if err != nil {
		return nil // what is in use stays in use
	}
	const most = 32
	var inside []string
	path = Resolve(path) + string(filepath.Separator)
	for i := range table {
		if strings.HasPrefix(table[i].Path, path) && len(inside) < most {
			inside = append(inside, table[i].Path)
		}
	}
	return inside
}

// Resolve returns path without symbolic links above its last element, as mount tables have it. The element itself, on which
// something may be mounted that hangs, is not touched.
func Resolve(path string) string {
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}
