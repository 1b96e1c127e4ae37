// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/volumekit/volumekit/internal/filesystem"
	"github.com/volumekit/volumekit/internal/record"
	"github.com/volumekit/volumekit/volume"
)

// formatting is recorded, durably, after a device was proved to be blank and before mkfs begins, until a file system is found
// there. With it most devices on which mkfs was killed are not refused for ever: one is formatted again if it is the same device
// since the same boot, and what is there names the UUID of the file system that was being made, which nobody else's can.
type formatting struct {
	// Path is where the device was, without symbolic links.
	Path string `json:"path,omitempty"`

	// Device is what the device is: of a file its file system and inode, of a block device its number.
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

func (p *Plugin) formattingPath(name string) string {
	return filepath.Join(p.host.PluginDir(Name), "formatting", name+".json")
}

// forgetFormatting removes the record of a device that need not be formatted.
func (p *Plugin) forgetFormatting(name string) error {
	path := p.formattingPath(name)
	if !record.Exists(path) {
		return nil
	}
	if err := errors.Join(record.Remove(path), record.RemoveUnfinished(path)); err != nil {
		return err
	}
	p.removeEmpty(filepath.Dir(path))
	return nil
}

// settleFormatting removes the record of a device when it is of no use any more: it stays only where a killed mkfs has left what it
// describes, or nobody can tell. Without it the next pod would be refused the device for ever.
func (p *Plugin) settleFormatting(ctx context.Context, name string) error {
	begun, err := p.begunFormatting(name)
	if err != nil {
		return err
	}
	if begun == nil || begun.Boot == "" || begun.Boot != bootID() {
		return p.forgetFormatting(name)
	}
	found, err := (source{path: begun.Path}).find(ctx)
	switch {
	case errors.Is(err, volume.ErrNotFound), errors.Is(err, volume.ErrInvalid):
		return p.forgetFormatting(name)
	case err != nil:
		return nil // what is not known is kept
	case found.kind == directory || identityOf(found) != begun.Device:
		return p.forgetFormatting(name)
	}
	content, err := filesystem.Probe(ctx, found.path)
	if err != nil || content.IsLeftOf(begun.UUID) {
		return nil
	}
	return p.forgetFormatting(name)
}

// format makes a file system on a device that has none, if it is proved to be blank, or was when mkfs was begun.
func (p *Plugin) format(ctx context.Context, s source, found place, device, fsType string, content filesystem.Content) error {
	busy, err := p.staysBusy(ctx, device)
	if err != nil {
		return err
	}
	if busy {
		return volume.Errorf(volume.ErrInUse, "%s has no file system that could be mounted (%s), and somebody uses it: nothing is done to it", found.path, contentText(content))
	}
	now := formatting{Path: found.path, Device: identityOf(found), Type: fsType, UUID: string(uuid.NewUUID()), Boot: bootID()}
	if now.Bytes, err = filesystem.Size(device); err != nil {
		return err
	}
	if record := recordOfImage(found); record != "" {
		return volume.Errorf(volume.ErrInvalid, "%s is not formatted, because what was provisioned there (record %s) is not what is there now (%s): restore the file",
			found.path, record, contentText(content))
	}
	if !content.Blank {
		begun, err := p.begunFormatting(s.name)
		if err != nil {
			return err
		}
		if begun == nil || begun.Type != fsType || !begun.isOf(now) || !content.IsLeftOf(begun.UUID) {
			return volume.Errorf(volume.ErrInvalid, "%s is not formatted, because it is not blank: there is %s; "+
				"if nothing of that is needed, wipe the device (wipefs --all, and zeroes over its first and last 4 MiB), or give the PersistentVolume another one",
				found.path, content.Type)
		}
		now.UUID = begun.UUID
	}
	if err := record.WriteDurably(p.formattingPath(s.name), formattingVersion, now); err != nil {
		return err
	}
	err = filesystem.Make(ctx, p.host.Exec, device, filesystem.MakeOptions{Type: now.Type, UUID: now.UUID, Again: !content.Blank})
	if err != nil {
		return fmt.Errorf("make the file system %s on %s: %w", now.Type, found.path, err)
	}
	return p.forgetFormatting(s.name)
}

// recordOfImage returns the path of what is recorded of the image that was provisioned where the file is, empty if none was.
func recordOfImage(found place) string {
	name, isImage := strings.CutSuffix(filepath.Base(found.path), imageSuffix)
	if found.kind != file || !isImage {
		return ""
	}
	for base := filepath.Dir(found.path); ; base = filepath.Dir(base) {
		if path := (image{base: base, name: name}).recordPath(); record.Exists(path) {
			return path
		}
		if base == filepath.Dir(base) {
			return ""
		}
	}
}

// begunFormatting returns what is recorded of a device on which mkfs was begun, nil if nothing is that can be understood.
func (p *Plugin) begunFormatting(name string) (*formatting, error) {
	var begun formatting
	err := record.Read(p.formattingPath(name), formattingVersion, &begun)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, record.ErrDamaged) {
		return nil, nil
	}
	return &begun, err
}

// isOf reports whether the record is about the device that is there now.
func (f formatting) isOf(now formatting) bool {
	return f.Device == now.Device && f.Bytes == now.Bytes && f.Boot == now.Boot && f.Boot != ""
}
