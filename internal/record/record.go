// SPDX-License-Identifier: Apache-2.0

// Package record keeps small JSON files that say what is about to be done, so that it can be undone after a crash.
//
// A record is whole or absent: it is written under a temporary name and renamed. Records are not fsynced: they stand for
// things, such as mounts, that do not outlive a power cut either. After one a record can be empty or cut short, which Read
// reports as damage.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrDamaged is about a record whose content cannot be understood: it is empty, cut short, or of another version.
var ErrDamaged = errors.New("damaged record")

// temporary is how the names of unfinished records begin. No record has a name that begins with a dot.
const temporary = ".record-"

// maxBytes is more than any record has: an object of the API has 3 MiB at the most.
const maxBytes = 16 << 20

// creationAttempts bounds how often Write makes the directory anew when somebody else, tearing down a neighbour, removes
// it because it is empty.
const creationAttempts = 100

// envelope is the form of a record's file.
type envelope struct {
	Version int             `json:"version"`
	Content json.RawMessage `json:"content"`
}

// Write makes the file at path hold content, with the version that Read shall ask for, and makes the directories that
// it needs. It replaces an older record at once.
func Write(path string, version int, content any) error {
	raw, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encode record %s: %w", path, err)
	}
	data, err := json.Marshal(envelope{Version: version, Content: raw})
	if err != nil {
		return fmt.Errorf("encode record %s: %w", path, err)
	}
	for attempt := 1; ; attempt++ {
		err := write(path, data)
		if err == nil {
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) || attempt == creationAttempts {
			return fmt.Errorf("write record %s: %w", path, err)
		}
		// A directory that vanishes while MkdirAll looks at it makes it fail with either error.
		err = os.MkdirAll(filepath.Dir(path), 0o750)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("write record %s: %w", path, err)
		}
	}
}

func write(path string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), temporary)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
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

// List returns the names of the records in dir, in their order. A directory that does not exist holds none. Subdirectories
// and temporary files are not listed.
func List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if !entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// Remove removes the record at path. It succeeds if there is none.
func Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove record: %w", err)
	}
	return nil
}

// RemoveDir removes the directory of records if no record is left in it, together with what a crash left of writing one.
// It succeeds, and changes nothing, if there are records.
func RemoveDir(dir string) error {
	err := syscall.Rmdir(dir) // os.Remove would try unlink first
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if !isNotEmpty(err) {
		return fmt.Errorf("remove directory of records %s: %w", dir, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove directory of records: %w", err)
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), temporary) {
			return nil
		}
	}
	for _, entry := range entries {
		if err := Remove(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) && !isNotEmpty(err) {
		return fmt.Errorf("remove directory of records %s: %w", dir, err)
	}
	return nil
}
