// SPDX-License-Identifier: Apache-2.0

// Package record keeps small JSON files that say what is about to be done, so that it can be undone after a crash.
//
// A record is whole or absent: it is written under a temporary name and renamed. Those that Write makes are not fsynced: they
// stand for things, such as mounts, that do not outlive a power cut either. After one such a record can be empty or cut short,
// which Read reports as damage. What does outlive it, such as a device that is attached, is for WriteDurably.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// ErrDamaged is about a record whose content cannot be understood: it is empty, cut short, or of another version.
var ErrDamaged = errors.New("damaged record")

// maxBytes is more than any record has: an object of the API has 3 MiB at the most.
const maxBytes = 16 << 20

// creationAttempts bounds how often Write makes the directory anew when somebody else removes it because it is empty.
const creationAttempts = 100

// dirMode is that of the directories of records.
const dirMode = 0o750

// envelope is the form of a record's file.
type envelope struct {
	Version int             `json:"version"`
	Content json.RawMessage `json:"content"`
}

// Write makes the file at path hold content, with the version that Read shall ask for, and makes the directories that
// it needs. It replaces an older record at once. Nobody else may be writing the same record.
func Write(path string, version int, content any) error {
	return writeWhole(path, version, content, func(*os.File) error { return nil }, func(string) error { return nil })
}

// WriteDurably is Write for what has to be there after a power cut: when it returns nil, the record is on the disk.
func WriteDurably(path string, version int, content any) error {
	return writeWhole(path, version, content, (*os.File).Sync, syncDirectory)
}

// writeWhole calls syncFile before the record has its name, and syncDir on its directory afterwards.
func writeWhole(path string, version int, content any, syncFile func(*os.File) error, syncDir func(string) error) error {
	raw, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encode record %s: %w", path, err)
	}
	data, err := json.Marshal(envelope{Version: version, Content: raw})
	if err != nil {
		return fmt.Errorf("encode record %s: %w", path, err)
	}
	for attempt := 1; ; attempt++ {
		err := write(path, data, syncFile)
		if err == nil {
			if err = syncDir(filepath.Dir(path)); err == nil {
				return nil
			}
		}
		if !errors.Is(err, fs.ErrNotExist) || attempt == creationAttempts {
			return fmt.Errorf("write record %s: %w", path, err)
		}
		// Most often only the last directory is missing. One that vanishes while MkdirAll looks at it makes it fail with either
		// error.
		dir := filepath.Dir(path)
		if err = os.Mkdir(dir, dirMode); errors.Is(err, fs.ErrNotExist) {
			err = os.MkdirAll(dir, dirMode)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("write record %s: %w", path, err)
		}
	}
}

func write(path string, data []byte, sync func(*os.File) error) error {
	unfinished := temporary(path)
	file, err := create(unfinished)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = sync(file)
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(unfinished, path)
	}
	if err != nil {
		_ = os.Remove(unfinished)
	}
	return err
}

// syncDirectory has the kernel write the names in a directory to the disk, and those of the two above it, which may have been made
// for it.
func syncDirectory(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // it has no such call
	}
	for range 3 {
		d, err := os.Open(dir)
		if err != nil {
			return err
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			return fmt.Errorf("sync %s: %w", dir, err)
		}
		dir = filepath.Dir(dir)
	}
	return nil
}

// create makes a file in the place of what a crash has left there. Whatever that is, it is not opened: a link leads elsewhere,
// and a named pipe waits for a reader.
func create(path string) (*os.File, error) {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	file, err := os.OpenFile(path, flags, 0o600)
	if !errors.Is(err, fs.ErrExist) {
		return file, err
	}
	if err := Remove(path); err != nil {
		return nil, err
	}
	return os.OpenFile(path, flags, 0o600)
}

// temporary is where a record is written before it has its name.
func temporary(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
}

// Read decodes the record at path into content. The error matches fs.ErrNotExist if there is none, and ErrDamaged if it
// cannot be understood.
func Read(path string, version int, content any) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() > maxBytes {
		return fmt.Errorf("%w %s: %s of %d bytes", ErrDamaged, path, info.Mode(), info.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("%w %s: %d bytes that are no record: %w", ErrDamaged, path, len(data), err)
	}
	if e.Version != version {
		return fmt.Errorf("%w %s: version %d, expected %d", ErrDamaged, path, e.Version, version)
	}
	if err := json.Unmarshal(e.Content, content); err != nil {
		return fmt.Errorf("%w %s: %w", ErrDamaged, path, err)
	}
	return nil
}

// Exists tells whether there is a record at path, whole or damaged, or one that was begun: what cannot be looked at may be
// there.
func Exists(path string) bool {
	for _, name := range []string{path, temporary(path)} {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// Remove removes the record at path. It succeeds if there is none.
func Remove(path string) error {
	if err := syscall.Unlink(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "remove record", Path: path, Err: err}
	}
	return nil
}

// RemoveUnfinished removes what a crash left of writing the record at path.
func RemoveUnfinished(path string) error { return Remove(temporary(path)) }
