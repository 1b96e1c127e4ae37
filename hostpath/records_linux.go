// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/volume"
)

// records say which directory each volume has, and which volume each directory belongs to. They are in the base path:
//
//	.volumekit-hostpath/names/PVNAME          where the volume is, and whether it is complete
//	.volumekit-hostpath/volumes/PATH/FROM/BASE  the name of the volume that is there
//
// Each is a symbolic link that leads nowhere: a link is made with all that it holds or not at all, and by one only, whoever
// else tries. Since a link has nothing below it, and does not replace a directory, the second tree also keeps a volume from
// lying inside another.
type records struct {
	base int    // descriptor of the base path
	path string // of the base path
}

// What a record begins with.
const (
	recordOwner    = "volumekit-hostpath/v1/owner/"
	recordBegun    = "volumekit-hostpath/v1/begun/"    // the directory may not be there, or not have its owner and mode
	recordComplete = "volumekit-hostpath/v1/complete/" // the directory is the volume's, with all that is in it
)

// recordMode is the mode of the directories of records.
const recordMode = 0o700

func nameElements(pvName string) []string { return []string{recordsDir, "names", pvName} }

// nextElements are where the next record of a name is made; the name of a PersistentVolume has at most 253 bytes.
func nextElements(pvName string) []string { return []string{recordsDir, "n-" + pvName} }

func ownerElements(l location) []string {
	return append([]string{recordsDir, "volumes"}, l.elements...)
}

// find returns where the volume is; found is false if there is no record of it.
func (r records) find(pvName string) (l location, complete, found bool, err error) {
	elements := nameElements(pvName)
	record, err := r.read(elements)
	if errors.Is(err, fs.ErrNotExist) {
		return location{}, false, false, nil
	}
	if err != nil {
		return location{}, false, false, err
	}
	path, complete := strings.CutPrefix(record, recordComplete)
	if !complete {
		var begun bool
		if path, begun = strings.CutPrefix(record, recordBegun); !begun {
			return location{}, false, false, r.notUnderstood(elements, record)
		}
	}
	return location{base: r.path, elements: strings.Split(path, "/")}, complete, true, nil
}

// owner returns the volume that the directory belongs to, empty if it has no record. The error matches ErrInUse if the
// directory would lie inside that of another volume, or hold one.
func (r records) owner(l location) (string, error) {
	elements := ownerElements(l)
	record, err := r.read(elements)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		return "", volume.Errorf(volume.ErrInUse, "%q lies inside the directory of another volume: %w", l.path(), err)
	case errors.Is(err, unix.EINVAL):
		return "", volume.Errorf(volume.ErrInUse, "%q holds the directories of other volumes, which are recorded in %q", l.path(), r.pathOf(elements))
	case err != nil:
		return "", err
	}
	owner, ok := strings.CutPrefix(record, recordOwner)
	if !ok {
		return "", r.notUnderstood(elements, record)
	}
	return owner, nil
}

// begin records that the directory is going to be made for the volume. The error matches ErrInUse if somebody else has
// recorded the directory meanwhile.
func (r records) begin(l location, pvName string) error {
	if err := r.write(nameElements(pvName), recordBegun+filepath.Join(l.elements...)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	err := r.write(ownerElements(l), recordOwner+pvName)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		// It may be our own, of an earlier call.
		owner, ownerErr := r.owner(l)
		switch {
		case ownerErr != nil:
			return ownerErr
		case owner != pvName:
			return r.belongsTo(l, owner)
		}
		return nil
	}
	return err
}

// complete records that the volume's directory is made.
func (r records) complete(l location, pvName string) error {
	next, name := nextElements(pvName), nameElements(pvName)
	if err := r.remove(next); err != nil {
		return err
	}
	if err := r.write(next, recordComplete+filepath.Join(l.elements...)); err != nil {
		return err
	}
	from, err := r.open(next, 0)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	to, err := r.open(name, 0)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	if err := unix.Renameat(from, next[len(next)-1], to, name[len(name)-1]); err != nil {
		return pathError("write record", r.pathOf(name), err)
	}
	return syncDir(to, r.pathOf(name[:len(name)-1]))
}

// forget removes the records of the volume, the one that others look at first.
func (r records) forget(l location, pvName string) error {
	for _, elements := range [][]string{ownerElements(l), nextElements(pvName), nameElements(pvName)} {
		if err := r.remove(elements); err != nil {
			return err
		}
	}
	return nil
}

func (r records) belongsTo(l location, owner string) error {
	return volume.Errorf(volume.ErrInUse, "directory %q belongs to PersistentVolume %s (recorded at %q)", l.path(), owner, r.pathOf(ownerElements(l)))
}

func (r records) notUnderstood(elements []string, record string) error {
	return fmt.Errorf("record %q is not understood: it holds %q", r.pathOf(elements), record)
}

func (r records) pathOf(elements []string) string {
	return filepath.Join(r.path, filepath.Join(elements...))
}

// open opens the directory of a record. If mode is not 0, it is made.
func (r records) open(elements []string, mode uint32) (int, error) {
	return descend(r.base, r.path, elements[:len(elements)-1], mode)
}

func (r records) read(elements []string) (string, error) {
	dir, err := r.open(elements, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(dir)
	buf := make([]byte, maxPathBytes+1)
	n, err := unix.Readlinkat(dir, elements[len(elements)-1], buf)
	if err != nil {
		return "", pathError("read record", r.pathOf(elements), err)
	}
	return string(buf[:n]), nil
}

func (r records) write(elements []string, record string) error {
	dir, err := r.open(elements, recordMode)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := unix.Symlinkat(record, dir, elements[len(elements)-1]); err != nil {
		return pathError("write record", r.pathOf(elements), err)
	}
	return syncDir(dir, r.pathOf(elements[:len(elements)-1]))
}

// remove removes a record. It succeeds if there is none.
func (r records) remove(elements []string) error {
	dir, err := r.open(elements, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	switch err := unix.Unlinkat(dir, elements[len(elements)-1], 0); err {
	case nil:
		return syncDir(dir, r.pathOf(elements[:len(elements)-1]))
	case unix.ENOENT:
		return nil
	default:
		return pathError("remove record", r.pathOf(elements), err)
	}
}
