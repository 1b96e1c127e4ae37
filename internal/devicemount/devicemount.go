// SPDX-License-Identifier: Apache-2.0

// Package devicemount makes block devices ready to be mounted: it makes a file system where there is provably nothing, and has one
// that is there checked.
package devicemount

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/internal/filesystem"
	"github.com/volumekit/volumekit/volume"
)

// Device is a device that is to be mounted. Its methods may be called concurrently for different devices.
type Device struct {
	// Path is the block device.
	Path string

	// Name is how messages name the device, and where it is found again: Path, or that of the file behind a loop device, without
	// symbolic links. Identity is that of [IdentityOf].
	Name, Identity string

	// FSType is the file system that is asked for, by the field Field. Empty takes what is there, and ext4 where nothing is.
	FSType, Field string

	// ReadOnly has nothing done to the device.
	ReadOnly bool

	// NeverFormat says why no file system may be made, whatever is there; empty if one may.
	NeverFormat string

	// Formatting is where it is recorded that a file system is being made.
	Formatting FormattingRecord
}

// Prepare makes sure that there is a file system that can be mounted, and returns its type. The error matches [volume.ErrUncertain] if
// it cannot be told what is there, [volume.ErrInUse] if somebody else works on the device, and [volume.ErrInvalid] if it is not blank,
// is damaged, or has another file system than FSType. Nothing is done to it then.
func (d Device) Prepare(ctx context.Context, host volume.Host) (fsType string, err error) {
	content, err := filesystem.Probe(ctx, d.Path)
	if err != nil {
		return "", volume.Errorf(volume.ErrUncertain, "it is not known what is on %s, so nothing is done to it: %w", d.Name, err)
	}
	if content.IsFileSystem {
		return content.Type, d.take(ctx, host, content)
	}
	fsType = d.FSType
	if fsType == "" {
		fsType = "ext4"
	}
	if d.ReadOnly {
		return "", volume.Errorf(volume.ErrInvalid, "%s has no file system (%s), and is to be mounted read-only, so none is made", d.Name, contentText(content))
	}
	err = d.format(ctx, host, fsType, content)
	if errors.Is(err, filesystem.ErrNotBlank) { // somebody else, such as the node agent of another root, was faster
		if content, probeErr := filesystem.Probe(ctx, d.Path); probeErr == nil && content.IsFileSystem {
			return content.Type, d.take(ctx, host, content)
		}
	}
	return fsType, err
}

// take has a file system that is there checked, unless it is not what was asked for.
func (d Device) take(ctx context.Context, host volume.Host, content filesystem.Content) error {
	if d.FSType != "" && d.FSType != content.Type && !(isExt(d.FSType) && isExt(content.Type)) {
		return volume.Errorf(volume.ErrInvalid, "%s has the file system %s, and %s asks for %s: correct that, or give the volume another device",
			d.Name, content.Type, d.Field, d.FSType)
	}
	if err := d.Formatting.Forget(); err != nil {
		return err
	}
	if d.ReadOnly {
		return nil // to check it is to write
	}
	return d.check(ctx, host, content.Type)
}

func isExt(fsType string) bool { return slices.Contains([]string{"ext2", "ext3", "ext4"}, fsType) }

func contentText(c filesystem.Content) string {
	if c.Blank {
		return "it is blank"
	}
	return "there is: " + c.Type
}

// check has the file system checked, unless the device is in use.
func (d Device) check(ctx context.Context, host volume.Host, fsType string) error {
	busy, err := d.staysBusy(ctx, host.Mounter)
	if err != nil || busy {
		return err
	}
	_, err = filesystem.Check(ctx, host.Exec, d.Path, fsType)
	switch {
	case errors.Is(err, filesystem.ErrInUse):
		return nil // since a moment ago; that it is in use is for mounting to say
	case errors.Is(err, filesystem.ErrNeedsRepair):
		// A loop device goes: what can be repaired is the file.
		return volume.Errorf(volume.ErrInvalid, "the file system on %s is damaged, and is not mounted: %s", d.Name, strings.ReplaceAll(err.Error(), d.Path, d.Name))
	case err != nil:
		return fmt.Errorf("check the file system on %s: %w", d.Name, err)
	}
	return nil
}
