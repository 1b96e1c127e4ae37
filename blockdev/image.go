// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/volumekit/volumekit/internal/record"
)

// recordsDir is the directory, in each base path, of the records; in the directory of an image it holds that while it is being made.
const recordsDir = ".volumekit-blockdev"

// imageSuffix is what the name of an image ends with.
const imageSuffix = ".img"

// image is the file of a device that was provisioned.
type image struct {
	base  string // one of the plugin's
	below string // the directory below it that has the image; empty for base itself
	name  string // the PersistentVolume's
}

func (i image) directory() string { return filepath.Join(i.base, i.below) }

// fileName is the name of the image, in its directory once it has been made.
func (i image) fileName() string { return i.name + imageSuffix }

// path is where the image is once it has been made.
func (i image) path() string { return filepath.Join(i.directory(), i.fileName()) }

// unfinished is where the image is as long as it is being made.
func (i image) unfinished() string { return filepath.Join(i.directory(), recordsDir, i.fileName()) }

// records is the directory of the records. It is the base path's, so that a name has one image, whatever directory is asked for.
func (i image) records() string { return filepath.Join(i.base, recordsDir) }

func (i image) recordPath() string { return filepath.Join(i.records(), i.name+".json") }

// maxNameBytes is how long the name of a volume can be, so that those of its record and of what is beside it are file names.
const maxNameBytes = 240

// imageRecord is recorded of an image, durably, before it is made.
type imageRecord struct {
	// Below is where the image is, as of image.
	Below string `json:"below,omitempty"`

	// File is the image, zero as long as that has not been made.
	File fileID `json:"file,omitzero"`

	// Complete says that the image has been made to its end, and has its name.
	Complete bool `json:"complete,omitempty"`

	// Deleting says that it is being deleted: what is left of it has no meaning any more.
	Deleting bool `json:"deleting,omitempty"`

	Bytes         int64    `json:"bytes"`
	FSType        string   `json:"fsType,omitempty"` // empty for a raw device
	MkfsOptions   []string `json:"mkfsOptions,omitempty"`
	Preallocate   bool     `json:"preallocate,omitempty"`
	ScrubOnDelete bool     `json:"scrubOnDelete,omitempty"`
}

// fileID tells a file from another one that somebody puts in its place. The number of a file system's device is no part of it: it can
// be another one after a reboot.
type fileID struct {
	Inode uint64 `json:"inode"`

	// Born is when the file was made, in nanoseconds; 0 where the file system does not keep that. The inode may have been another
	// file's before.
	Born int64 `json:"born,omitempty"`
}

const imageRecordVersion = 1

// read returns what is recorded, nil if nothing is.
func (i image) read() (*imageRecord, error) {
	var r imageRecord
	err := record.Read(i.recordPath(), imageRecordVersion, &r)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &r, nil
}

func (i image) write(r *imageRecord) error {
	return record.WriteDurably(i.recordPath(), imageRecordVersion, r)
}
