// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package removal

import (
	"context"
	"errors"
	"io/fs"
	"os"
)

// All removes path and everything beneath it, as [os.RemoveAll] does. Mounts are not looked at. The context is asked
// before the removal begins, and not again.
func All(ctx context.Context, path string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return os.RemoveAll(path)
}

// Contents removes everything beneath dir, and keeps dir itself. It is an error if dir is a symbolic link or no
// directory; if it does not exist there is nothing to do. Mounts are not looked at. The context is asked for each entry
// of dir.
func Contents(ctx context.Context, dir string) error {
	found, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !found.IsDir() {
		return pathError("open", dir, errNotDirectory)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	var left failures
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := root.RemoveAll(entry.Name()); err != nil {
			left.add(err)
		}
	}
	return left.join(dir, &MountedError{})
}

var errNotDirectory = errors.New("not a directory")

// InMount is [Contents].
func InMount(ctx context.Context, dir string) error { return Contents(ctx, dir) }
