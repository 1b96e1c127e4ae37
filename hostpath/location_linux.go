// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/descent"
	"github.com/volumekit/volumekit/internal/provisioning"
	"github.com/volumekit/volumekit/volume"
)

// parentMode is the mode of what is made above the directory of a volume.
const parentMode = 0o755

// make makes the directory of the volume, or goes on with it where an earlier call ended. It returns where the directory
// is: where the first call for the volume put it.
func (l location) make(pvName string, p parameters) (location, error) {
	for attempt := 1; ; attempt++ {
		made, err := l.tryMake(pvName, p)
		// Whoever deletes a neighbour removes the directories that are empty then.
		if !errors.Is(err, fs.ErrNotExist) || attempt == maxAttempts {
			return made, err
		}
	}
}

func (l location) tryMake(pvName string, p parameters) (location, error) {
	base, err := open(l.base, unix.O_RDONLY|unix.O_DIRECTORY, true)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeDirs(l.base, true); err != nil && !errors.Is(err, fs.ErrExist) {
			return location{}, err
		}
		base, err = open(l.base, unix.O_RDONLY|unix.O_DIRECTORY, true)
	}
	if err != nil {
		return location{}, err
	}
	defer unix.Close(base)
	r := records{base: base, path: l.base}

	recorded, complete, found, err := r.find(pvName)
	if err != nil {
		return location{}, err
	}
	if found {
		l = recorded // a label or an annotation in the pattern may have changed since
	}
	if err := l.makeAs(r, pvName, complete, p); err != nil {
		if _, complete, found, findErr := r.find(pvName); findErr == nil && found && !complete {
			l.undo(r, pvName)
		}
		return location{}, err
	}
	return l, nil
}

// makeAs makes the directory for a volume that may be begun or complete.
func (l location) makeAs(r records, pvName string, complete bool, p parameters) error {
	owner, err := r.owner(l)
	if err != nil {
		return err
	}
	exists, err := l.exists(r.base)
	switch {
	case err != nil:
		return err
	case owner != "" && owner != pvName:
		return r.belongsTo(l, owner)
	case owner == "" && exists:
		return volume.Errorf(volume.ErrInvalid, "%q exists already and was not provisioned: move it away, or describe it in a PersistentVolume of your own", l.path())
	case complete && exists:
		return nil
	}
	if err := r.begin(l, pvName); err != nil {
		return err
	}
	if err := l.makeDirectory(r.base, p); err != nil {
		return err
	}
	return r.complete(l, pvName)
}

// undo removes what is there of a volume that could not be made, as far as possible, so that another one may have the place.
func (l location) undo(r records, pvName string) {
	if owner, err := r.owner(l); err == nil && owner == pvName {
		if parent, err := l.openParent(r.base, 0); err == nil {
			_ = unix.Unlinkat(parent, l.name(), unix.AT_REMOVEDIR)
			unix.Close(parent)
		}
		_ = r.remove(ownerElements(l))
	}
	_ = r.remove(nameElements(pvName))
	l.removeParents(r.base, pvName)
}

// makeDirectory makes the directory with its owner and mode. One that is there already is taken over only if it is empty:
// it is then what a crash has left.
func (l location) makeDirectory(base int, p parameters) error {
	parent, err := l.openParent(base, parentMode)
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	// It opens up only when it has its owner.
	if err := retry(func() error { return unix.Mkdirat(parent, l.name(), 0o700) }); err != nil && err != unix.EEXIST {
		return pathError("make directory", l.path(), err)
	}
	dir, err := descent.Open(parent, l.name(), unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return provisioning.InTheWay(l.path(), err)
	}
	defer unix.Close(dir)
	switch names, err := descent.ReadNames(dir, make([]byte, 4096)); {
	case err != nil:
		return pathError("read", l.path(), err)
	case len(names) > 0:
		return volume.Errorf(volume.ErrInvalid, "%q holds files although it has not been provisioned completely: move it away", l.path())
	}
	if err := unix.Fchown(dir, p.uid, p.gid); err != nil {
		return pathError(fmt.Sprintf("give to user %d and group %d (-1: unchanged)", p.uid, p.gid), l.path(), err)
	}
	if err := chmod(dir, l.path(), p.mode); err != nil {
		return err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(dir, &stat); err != nil {
		return pathError("stat", l.path(), err)
	}
	if got := stat.Mode & 0o7777; got != p.mode {
		// chmod(2) drops the setgid bit if the caller is not in the group.
		return fmt.Errorf("the mode of %q is %#o instead of %#o: %w", l.path(), got, p.mode, fs.ErrPermission)
	}
	return syncDir(parent, l.path())
}

// exists reports whether there is a directory for the volume. Anything else in its place, or on the way, is an error.
func (l location) exists(base int) (bool, error) {
	parent, err := l.openParent(base, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(parent)
	var stat unix.Stat_t
	err = retry(func() error { return unix.Fstatat(parent, l.name(), &stat, unix.AT_SYMLINK_NOFOLLOW) })
	switch {
	case err == unix.ENOENT:
		return false, nil
	case err != nil:
		return false, pathError("stat", l.path(), err)
	case stat.Mode&unix.S_IFMT != unix.S_IFDIR:
		return false, provisioning.InTheWay(l.path(), unix.ENOTDIR)
	}
	return true, nil
}

func (l location) name() string { return l.elements[len(l.elements)-1] }

// openParent opens the directory that holds the volume's, for reading. If mode is not 0, what is missing is made.
func (l location) openParent(base int, mode uint32) (int, error) {
	return descend(base, l.base, l.elements[:len(l.elements)-1], mode)
}

// removeParents removes directories that have become empty: those of the records, and those above the volume's directory
// that are as make makes them, so that making them again gives back the same.
func (l location) removeParents(base int, pvName string) {
	always := func(unix.Stat_t) bool { return true }
	removeEmpty(base, nameElements(pvName), always)
	removeEmpty(base, ownerElements(l), always)
	removeEmpty(base, l.elements, func(stat unix.Stat_t) bool {
		return stat.Mode&0o7777 == parentMode && int(stat.Uid) == unix.Geteuid()
	})
}
