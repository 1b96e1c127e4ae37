// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package emptydir

import (
	"context"
	"os"

	"github.com/volumekit/volumekit/volume"
)

const haveMounts = false

// mountState answers for a system on which the plugin mounts nothing.
func (p *Plugin) mountState(path string) (state, error) {
	_, err := os.Lstat(path)
	return unmounted, err
}

// renameNew renames a directory: os.Rename replaces no directory by another.
func renameNew(from, to string) error { return os.Rename(from, to) }

func statMount(_ context.Context, path string) (mounted, error) {
	return mounted{}, volume.Errorf(volume.ErrNotSupported, "mounts are not supported on this system")
}

func isSelfBind(string) bool { return false }

func hidesMountPoint(string) bool { return true }
