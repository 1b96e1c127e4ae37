// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/internal/abandon"
	"github.com/volumekit/volumekit/internal/devicemount"
	"github.com/volumekit/volumekit/internal/volumedir"
	"github.com/volumekit/volumekit/volume"
)

// kind is what the path of a volume leads to.
type kind int

const (
	directory kind = iota
	device
	file // that stands for a device
)

// place is what the path of a volume leads to.
type place struct {
	path string // without symbolic links
	kind kind
	info fs.FileInfo
}

// find looks what the volume's path leads to. The error says what is there instead of something that can be served.
func (s source) find(ctx context.Context) (place, error) {
	return abandon.Run(ctx, func() (place, error) {
		path, err := filepath.EvalSymlinks(s.path)
		if err == nil {
			var info fs.FileInfo
			if info, err = os.Lstat(path); err == nil {
				return placeOf(path, info)
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return place{}, volume.Errorf(volume.ErrNotFound, "local.path %s leads to nothing: %w", s.path, err)
		}
		return place{}, fmt.Errorf("local.path %s: %w", s.path, err)
	})
}

func placeOf(path string, info fs.FileInfo) (place, error) {
	p := place{path: path, info: info}
	switch mode := info.Mode().Type(); {
	case mode == fs.ModeDir:
		p.kind = directory
	case mode == fs.ModeDevice: // with ModeCharDevice it would be a character device
		p.kind = device
	case mode == 0:
		p.kind = file
	default:
		return place{}, volume.Errorf(volume.ErrInvalid, "local.path leads to %s, which is neither a directory, a block device nor a regular file (%s)", path, mode)
	}
	return p, nil
}

// identityOf says what the device is, for a record.
func identityOf(found place) string { return devicemount.IdentityOf(found.info) }

func (p *Plugin) isMountPoint(ctx context.Context, path string) (bool, error) {
	return volumedir.IsMountPoint(ctx, p.host.Mounter, path)
}
