// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/volumekit/volumekit/internal/loopdev"
	"github.com/volumekit/volumekit/internal/record"
)

// image is the file of a device that was provisioned.
type image struct {
	directory string
	name      string // the PersistentVolume's
}

// path is where the image is once it has been made.
func (i image) path() string { return filepath.Join(i.directory, i.name+".img") }

// records is the directory of the records, and of images that are being made.
func (i image) records() string { return filepath.Join(i.directory, ".volumekit-blockdev") }

func (i image) recordPath() string { return filepath.Join(i.records(), i.name+".json") }

// unfinished is where the image is as long as it is being made.
func (i image) unfinished() string { return filepath.Join(i.records(), i.name+".img") }

// imageRecord is recorded of an image, durably, before it is made.
type imageRecord struct {
	// File is the image, zero as long as that has not been made.
	File loopdev.FileID `json:"file,omitzero"`

	// Complete says that the image has been made to its end, and has its name.
	Complete bool `json:"complete,omitempty"`

	// Deleting says that it is being deleted: what is left of it has no meaning any more.
	Deleting bool `json:"deleting,omitempty"`

	Bytes         int64    `json:"bytes"`
	FSType        string   `json:"fsType,omitempty"`
	MkfsOptions   []string `json:"mkfsOptions,omitempty"`
	Preallocate   bool     `json:"preallocate,omitempty"`
	ScrubOnDelete bool     `json:"scrubOnDelete,omitempty"`
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
