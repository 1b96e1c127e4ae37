// SPDX-License-Identifier: Apache-2.0

// Package volumedir is what plugins have in common that make the directory of a volume in a pod's tree, mount on it and take it away.
package volumedir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// makeAttempts bounds how often the parents of a directory are made again because somebody removed them, empty as they
// were, at the same moment.
const makeAttempts = 1000

// parentMode is for the directories that lead to a volume. A container sees none of them.
const parentMode = 0o750

// WithParents calls what makes something at path, and calls it again after making the parents that were missing.
func WithParents(path string, makeIt func() error) error {
	for attempt := 1; ; attempt++ {
		err := makeIt()
		if !errors.Is(err, fs.ErrNotExist) || attempt == makeAttempts {
			return err
		}
		if err := makeParents(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
}

// makeParents makes dir and what is missing above it. It begins at dir, since most often only that is missing.
func makeParents(dir string) error {
	err := os.Mkdir(dir, parentMode)
	if parent := filepath.Dir(dir); errors.Is(err, fs.ErrNotExist) && parent != dir {
		if err := makeParents(parent); err != nil {
			return err
		}
		err = os.Mkdir(dir, parentMode)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
