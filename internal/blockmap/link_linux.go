// SPDX-License-Identifier: Apache-2.0

package blockmap

import (
	"errors"
	"io/fs"
	"os"

	"github.com/volumekit/volumekit/volume"
)

// setLink makes path a symbolic link to target. It replaces another link, and nothing else.
func setLink(path, target string) error {
	switch now, err := os.Readlink(path); {
	case err == nil && now == target:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return volume.Errorf(volume.ErrInUse, "%s is no symbolic link: somebody else put it there; remove it: %w", path, err)
	case err != nil:
		return os.Symlink(target, path)
	}
	fresh := path + "~" // no name of a volume, or of a pod, has that
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, fresh); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// removeLink removes a symbolic link, and what a crash may have left of setting it. It succeeds if there is none.
func removeLink(path string) error {
	for _, link := range []string{path, path + "~"} {
		info, err := os.Lstat(link)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && info.Mode().Type() != fs.ModeSymlink {
			err = volume.Errorf(volume.ErrInUse, "%s is no symbolic link: somebody else put it there; remove it", link)
		}
		if err == nil {
			err = os.Remove(link)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
