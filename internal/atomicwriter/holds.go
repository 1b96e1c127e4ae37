// SPDX-License-Identifier: Apache-2.0

package atomicwriter

import (
	"io"
	"io/fs"
	"os"
	"path"
)

// Holds reports whether the files of payload are all that "..data" leads to, as [Write] makes them, so that there is no need to write
// them. A false answer may also mean that this cannot be found out.
func Holds(dir string, payload Payload, directories Directories) bool {
	current, err := Current(dir)
	if err != nil {
		return false
	}
	root, err := os.OpenRoot(path.Join(dir, current))
	if err != nil {
		return false
	}
	defer root.Close()
	found := 0
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if info.Mode() != fs.ModeDir|directories.Mode || !isOwner(info, nil, directories.Group) {
				return errDiffers
			}
			return nil
		}
		found++
		file, wanted := payload[name]
		if !wanted || info.Mode() != file.Mode || !isOwner(info, file.User, file.Group) || info.Size() != int64(len(file.Data)) {
			return errDiffers
		}
		return compare(root, name, file.Data)
	})
	return err == nil && found == len(payload)
}

// errDiffers ends a comparison.
var errDiffers = fs.ErrInvalid

func compare(root *os.Root, name, data string) error {
	file, err := root.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	content, err := io.ReadAll(file)
	if err == nil && string(content) != data {
		err = errDiffers
	}
	return err
}
