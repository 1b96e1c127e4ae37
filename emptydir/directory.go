// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/internal/volumedir"
	"github.com/volumekit/volumekit/volume"
)

// setUpDirectory sets up a volume of medium "". A directory that is there is whole, and it is the pod's: neither its owner
// nor its permissions are touched again.
func (m *mounter) setUpDirectory(ctx context.Context, owner ownership) error {
	there, limited, err := m.lookForLimit()
	if err != nil {
		return err
	}
	if limited {
		return m.setUpLimited(ctx, there, owner)
	}
	switch there {
	case mountPoint, listed:
		return m.verify(ctx, there)
	case absent:
		if err := m.plugin.makeDirectory(ctx, m.path, owner); err != nil {
			return err
		}
	}
	if !m.isMount() {
		return nil
	}
	return m.plugin.bindOntoItself(m.path)
}

// bindOntoItself makes a mount of a directory, which has the options.
func (p *Plugin) bindOntoItself(path string) error {
	return p.mount(path, path, "", append([]string{"bind"}, p.flags...))
}

// makeDirectory makes a directory that has its owner and permissions from the moment on that it has its name.
func (p *Plugin) makeDirectory(ctx context.Context, path string, owner ownership) error {
	hidden := hiddenPath(path)
	err := volumedir.WithParents(path, func() error {
		err := os.Mkdir(hidden, 0o700)
		if errors.Is(err, fs.ErrExist) { // a crash left it
			if err := p.removeHidden(ctx, hidden, volume.TearDownOptions{}); err != nil {
				return err
			}
			err = os.Mkdir(hidden, 0o700)
		}
		if err != nil {
			return err
		}
		if owner.gid != noGroup {
			if err := os.Chown(hidden, -1, int(owner.gid)); err != nil {
				return fmt.Errorf("give the volume to the fsGroup: %w", err)
			}
		}
		// After chown, which may take away the setgid bit: chown(2).
		if err := os.Chmod(hidden, owner.fileMode()); err != nil {
			return err
		}
		return renameNew(hidden, path)
	})
	return volumedir.Exhausted(err)
}

// mountPointMode tells the directory of a volume that is a mount from that of one that is a directory, which has hardly ever
// no permissions at all: what is mounted on the latter is somebody else's.
const mountPointMode fs.FileMode = 0

// makeMountPoint makes the directory of a volume that is a mount. The error wraps fs.ErrExist if there is something.
func makeMountPoint(path string) error {
	return volumedir.Exhausted(volumedir.WithParents(path, func() error { return os.Mkdir(path, mountPointMode) }))
}

// hiddenPath is where a volume is made that cannot be made in one step, beside where it will be. No volume has that name,
// since none begins with a dot, and even the longest one leaves room for it.
func hiddenPath(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
}
