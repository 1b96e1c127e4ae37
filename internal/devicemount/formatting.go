// SPDX-License-Identifier: Apache-2.0

package devicemount

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/volumekit/volumekit/internal/abandon"
	"github.com/volumekit/volumekit/internal/filesystem"
	"github.com/volumekit/volumekit/internal/record"
	"github.com/volumekit/volumekit/internal/volumedir"
	"github.com/volumekit/volumekit/volume"
)

// FormattingRecord is where it is recorded, durably, after a device was proved to be blank and before mkfs begins, until a file system
// is found there. With it most devices on which mkfs was killed are not refused for ever: one is formatted again if it is the same
// device since the same boot, and what is there names the UUID of the file system that was being made, which nobody else's can.
type FormattingRecord struct {
	// Path is the record's. Directories above it are made, and removed below Root when they are empty.
	Path, Root string
}

// formatting is what is recorded.
type formatting struct {
	// Path is where the device was, without symbolic links.
	Path string `json:"path,omitempty"`

	// Device is the device's identity.
	Device string `json:"device"`

	// Bytes is its size.
	Bytes int64 `json:"bytes"`

	// Boot is the kernel's boot_id. After another boot the number may be another device's.
	Boot string `json:"boot"`

	// Type and UUID are those of the file system.
	Type string `json:"type"`
	UUID string `json:"uuid"`
}

const formattingVersion = 1

// Forget removes the record, of a device that need not be formatted.
func (r FormattingRecord) Forget() error {
	if !record.Exists(r.Path) {
		return nil
	}
	if err := errors.Join(record.Remove(r.Path), record.RemoveUnfinished(r.Path)); err != nil {
		return err
	}
	volumedir.RemoveEmpty(r.Root, filepath.Dir(r.Path))
	return nil
}

// Settle removes the record when it is of no use any more: it stays only where a killed mkfs has left what it describes, or nobody can
// tell. Without it the next pod would be refused the device for ever.
func (r FormattingRecord) Settle(ctx context.Context) error {
	begun, err := r.read()
	if err != nil {
		return err
	}
	if begun == nil || begun.Boot == "" || begun.Boot != bootID() {
		return r.Forget()
	}
	info, err := abandon.Run(ctx, func() (fs.FileInfo, error) { return os.Lstat(begun.Path) })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r.Forget()
	case err != nil:
		return nil // what is not known is kept
	case IdentityOf(info) != begun.Device:
		return r.Forget()
	}
	content, err := filesystem.Probe(ctx, begun.Path)
	if err != nil || content.IsLeftOf(begun.UUID) {
		return nil
	}
	return r.Forget()
}

// read returns what is recorded, nil if nothing is that can be understood.
func (r FormattingRecord) read() (*formatting, error) {
	var begun formatting
	err := record.Read(r.Path, formattingVersion, &begun)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, record.ErrDamaged) {
		return nil, nil
	}
	return &begun, err
}

// isOf reports whether the record is about the device that is there now.
func (f formatting) isOf(now formatting) bool {
	return f.Device == now.Device && f.Bytes == now.Bytes && f.Boot == now.Boot && f.Boot != ""
}

// format makes a file system on a device that has none, if it is proved to be blank, or was when mkfs was begun.
func (d Device) format(ctx context.Context, host volume.Host, fsType string, content filesystem.Content) error {
	busy, err := d.staysBusy(ctx, host.Mounter)
	if err != nil {
		return err
	}
	if busy {
		return volume.Errorf(volume.ErrInUse, "%s has no file system that could be mounted (%s), and somebody uses it: nothing is done to it", d.Name, contentText(content))
	}
	now := formatting{Path: d.Name, Device: d.Identity, Type: fsType, UUID: string(uuid.NewUUID()), Boot: bootID()}
	if now.Bytes, err = filesystem.Size(d.Path); err != nil {
		return err
	}
	if d.NeverFormat != "" {
		return volume.Errorf(volume.ErrInvalid, "%s is not formatted (%s): %s", d.Name, contentText(content), d.NeverFormat)
	}
	if !content.Blank {
		begun, err := d.Formatting.read()
		if err != nil {
			return err
		}
		if begun == nil || begun.Type != fsType || !begun.isOf(now) || !content.IsLeftOf(begun.UUID) {
			return volume.Errorf(volume.ErrInvalid, "%s is not formatted, because it is not blank: there is %s; "+
				"if nothing of that is needed, wipe the device (wipefs --all, and zeroes over its first and last 4 MiB), or give the volume another one",
				d.Name, content.Type)
		}
		now.UUID = begun.UUID
	}
	if err := record.WriteDurably(d.Formatting.Path, formattingVersion, now); err != nil {
		return err
	}
	err = filesystem.Make(ctx, host.Exec, d.Path, filesystem.MakeOptions{Type: now.Type, UUID: now.UUID, Again: !content.Blank})
	if err != nil {
		return fmt.Errorf("make the file system %s on %s: %w", now.Type, d.Name, err)
	}
	return d.Formatting.Forget()
}
