// SPDX-License-Identifier: Apache-2.0

package atomicwriter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/internal/removal"
)

const (
	// dataName is the link to the directory that holds the files.
	dataName = "..data"

	// newDataName is where that link is made before it is renamed.
	newDataName = "..data_tmp"

	// reserved begins the names that are not those of files.
	reserved = ".."
)

// Write puts the files of payload into the directory at path, in the place of those that an earlier call has put there. If an error
// is returned the files are what they were before, but for an error that wraps [ErrUntidy]. What else is in the directory stays.
// Calls for one directory must not overlap.
//
// there are the files that are known to be there, nil if it is not known: those of them that stay as they are are not written again.
//
// Only who may see and change all files may be able to write to the directory itself.
func Write(ctx context.Context, path string, payload, there Payload, directories Directories) error {
	if err := payload.Check(); err != nil {
		return err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer root.Close()
	w := &writer{ctx: ctx, path: path, root: root, directories: directories, there: there}
	if err := w.removeUnfinished(); err != nil {
		return err
	}
	fresh, err := w.writeAll(payload)
	if err != nil {
		return w.wrap(err)
	}
	old, _ := root.Readlink(dataName)
	if err := w.publish(fresh, payload.firstElements()); err != nil {
		return w.wrap(err)
	}
	if err := errors.Join(w.unlink(payload.firstElements()), w.removeOld(old)); err != nil {
		return fmt.Errorf("%w: %w", ErrUntidy, w.wrap(err))
	}
	return nil
}

// Tidy does what an interrupted [Write] of the payload may have left undone after it replaced the files.
func Tidy(ctx context.Context, path string, payload Payload) error {
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer root.Close()
	w := &writer{ctx: ctx, path: path, root: root}
	names := payload.firstElements()
	_, linkErr := w.link(names)
	if err := errors.Join(w.removeUnfinished(), linkErr, w.unlink(names)); err != nil {
		return fmt.Errorf("%w: %w", ErrUntidy, w.wrap(err))
	}
	return nil
}

// ErrUntidy is about files that are what they should be, although there is more in the directory: names that lead to no file any
// more, or old files. The next call tidies up.
var ErrUntidy = errors.New("the files have been replaced, but their directory is not in order")

// Current returns the name of the directory that "..data" leads to, which changes with each [Write]. The error wraps
// fs.ErrNotExist if there is none, or the directory that it leads to is gone.
func Current(dir string) (string, error) {
	name, err := os.Readlink(path.Join(dir, dataName))
	if err != nil {
		return "", err
	}
	if !isOurs(name) {
		return "", fmt.Errorf("%s leads to %q: %w", path.Join(dir, dataName), name, fs.ErrNotExist)
	}
	if _, err := os.Lstat(path.Join(dir, name)); err != nil {
		return "", err
	}
	return name, nil
}

type writer struct {
	ctx         context.Context // of the one call that the writer is made for
	path        string
	root        *os.Root
	directories Directories
	there       Payload
}

// wrap says of an error in which directory it happened.
func (w *writer) wrap(err error) error { return fmt.Errorf("in %s: %w", w.path, err) }

// removeUnfinished removes what a crash, or an error, left of an earlier write.
func (w *writer) removeUnfinished() error {
	names, err := w.names()
	if err != nil {
		return err
	}
	current, _ := w.root.Readlink(dataName)
	for _, name := range names {
		if !strings.HasPrefix(name, reserved) || name == dataName || name == current {
			continue
		}
		if err := w.remove(name); err != nil {
			return err
		}
	}
	return nil
}

// remove removes what this package has made, with all that is in it, but for what is mounted there.
func (w *writer) remove(name string) error {
	if !isOurs(name) {
		return fmt.Errorf("%q was not made by a write", name)
	}
	return removal.All(w.ctx, filepath.Join(w.path, name))
}

func (w *writer) names() ([]string, error) {
	dir, err := w.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdirnames(-1)
}

// links returns the names of symbolic links. Where one that is not reserved leads to is not looked at: nobody else makes any.
func (w *writer) links() (map[string]bool, error) {
	dir, err := w.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	links := make(map[string]bool, len(entries))
	for _, entry := range entries {
		links[entry.Name()] = entry.Type() == fs.ModeSymlink
	}
	return links, err
}

// writeAll writes the files into a new directory and returns its name. After an error nothing of it is left.
func (w *writer) writeAll(payload Payload) (string, error) {
	name, err := w.makeDirectory()
	if err != nil {
		return "", err
	}
	if err := w.writeInto(name, payload); err != nil {
		_ = w.remove(name) // else by the next call
		return "", err
	}
	return name, nil
}

func (w *writer) writeInto(name string, payload Payload) error {
	into, err := w.root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer into.Close()
	links := newLinker(w.root, name)
	defer links.close()
	made := make(map[string]bool)
	for filePath, file := range payload {
		if err := w.makeParents(into, filePath, made); err != nil {
			return err
		}
		if there, ok := w.there[filePath]; ok && there.equal(file) && links.link(filePath) {
			continue
		}
		if err := writeFile(into, filePath, file); err != nil {
			return fmt.Errorf("write %q: %w", filePath, err)
		}
	}
	return w.permit(into, ".")
}

// makeDirectory makes a directory that is named after the time.
func (w *writer) makeDirectory() (string, error) {
	for {
		name := reserved + time.Now().UTC().Format("2006_01_02_15_04_05.000000000")
		err := w.root.Mkdir(name, 0o700)
		if !errors.Is(err, fs.ErrExist) {
			return name, err
		}
	}
}

// makeParents makes the directories of a file that have not been made.
func (w *writer) makeParents(into *os.Root, filePath string, made map[string]bool) error {
	dir := path.Dir(filePath)
	if dir == "." || made[dir] {
		return nil
	}
	if err := w.makeParents(into, dir, made); err != nil {
		return err
	}
	made[dir] = true
	if err := into.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return w.permit(into, dir)
}

// permit lets others use a directory.
func (w *writer) permit(into *os.Root, dir string) error {
	if group := w.directories.Group; group != nil {
		if err := into.Chown(dir, -1, int(*group)); err != nil {
			return err
		}
	}
	return into.Chmod(dir, w.directories.Mode)
}

func writeFile(into *os.Root, filePath string, f File) (err error) {
	file, err := into.OpenFile(filePath, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.WriteString(f.Data); err != nil {
		return err
	}
	if f.User != nil || f.Group != nil {
		if err := file.Chown(idOf(f.User), idOf(f.Group)); err != nil {
			return err
		}
	}
	return file.Chmod(f.Mode)
}

func idOf(id *int64) int {
	if id == nil {
		return -1
	}
	return int(*id)
}

// publish makes the directory that of the files, after the names that lead to them, so that nothing is missing if there is no room
// for those. After an error it is as if nothing had been done.
func (w *writer) publish(directory string, names []string) error {
	linked, err := w.link(names)
	if err == nil {
		err = w.root.Symlink(directory, newDataName)
	}
	if err == nil {
		err = w.root.Rename(newDataName, dataName)
	}
	if err != nil {
		_ = w.root.Remove(newDataName)
		for _, name := range linked {
			_ = w.root.Remove(name)
		}
		_ = w.remove(directory)
	}
	return err
}

// link makes the names of files lead to them, and returns those that did not.
func (w *writer) link(names []string) (linked []string, err error) {
	there, err := w.links()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if there[name] {
			continue
		}
		err := w.root.Symlink(path.Join(dataName, name), name)
		if errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("%w, and is not what was put there: remove it", err)
		}
		if err != nil {
			return linked, err
		}
		linked = append(linked, name)
	}
	return linked, nil
}

// unlink removes names that lead to no file any more. What else is in the directory stays.
func (w *writer) unlink(wanted []string) error {
	there, err := w.names()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range there {
		if _, is := slices.BinarySearch(wanted, name); is || strings.HasPrefix(name, reserved) {
			continue
		}
		if target, err := w.root.Readlink(name); err == nil && target == path.Join(dataName, name) {
			errs = append(errs, w.root.Remove(name))
		}
	}
	return errors.Join(errs...)
}

// removeOld removes old files, if there were any.
func (w *writer) removeOld(name string) error {
	if !isOurs(name) { // there were none, or somebody has put a link of his own there
		return nil
	}
	return w.remove(name)
}

// isOurs reports whether a name is one that this package gives to directories.
func isOurs(name string) bool {
	return strings.HasPrefix(name, reserved) && !strings.Contains(name, "/") && len(name) > len(reserved)
}
