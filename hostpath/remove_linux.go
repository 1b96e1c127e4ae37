// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/removal"
	"github.com/volumekit/volumekit/volume"
)

// remove removes the directory of the volume and all that is in it, then its records. Before, once it is known that the directory is
// the volume's, unlimit takes away what limits it. After a crash the same call goes on.
func (l location) remove(ctx context.Context, pvName string, unlimit func() error) error {
	base, err := open(l.base, unix.O_RDONLY|unix.O_DIRECTORY, true)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the base path is missing, so nothing is known of what is in it: mount its disk, or make it again: %w", err)
	}
	if err != nil {
		return err
	}
	defer unix.Close(base)
	r := records{base: base, path: l.base}
	recorded, _, found, err := r.find(pvName)
	if err != nil {
		return err
	}
	owner, err := r.owner(l)
	if err != nil {
		return err
	}
	exists, err := l.exists(base)
	switch {
	case err != nil:
		return err
	case owner != "" && owner != pvName:
		return r.belongsTo(l, owner)
	case found && recorded.path() != l.path():
		return volume.Errorf(volume.ErrInvalid, "it says that it is at %q, but it was provisioned at %q (recorded at %q)", l.path(), recorded.path(), r.pathOf(nameElements(pvName)))
	case owner == "" && exists:
		return volume.Errorf(volume.ErrInvalid, "%q was not provisioned: it has no record at %q", l.path(), r.pathOf(ownerElements(l)))
	}
	if err := unlimit(); err != nil {
		return err
	}
	if exists {
		if err := l.removeDirectory(ctx, base); err != nil {
			return err
		}
	}
	if err := r.forget(l, pvName); err != nil {
		return err
	}
	l.removeParents(base, pvName)
	return nil
}

func (l location) removeDirectory(ctx context.Context, base int) error {
	parent, err := l.openParent(base, 0)
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	// Package removal trusts the directories that lead to what it removes; a descriptor leads where it was opened.
	through := fmt.Sprintf("/proc/self/fd/%d", parent)
	if err := removal.All(ctx, filepath.Join(through, l.name())); err != nil {
		return namedError{err: err, shown: through, name: filepath.Dir(l.path())}
	}
	return syncDir(parent, filepath.Dir(l.path()))
}

// namedError is an error whose text shows the path of a descriptor by its name.
type namedError struct {
	err         error
	shown, name string
}

func (e namedError) Error() string { return strings.ReplaceAll(e.err.Error(), e.shown+"/", e.name+"/") }
func (e namedError) Unwrap() error { return e.err }
