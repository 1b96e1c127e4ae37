// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/volumekit/volumekit/volume"
)

// state tells what is where a volume should be, as far as mounts are concerned.
type state int

const (
	// absent: nothing is there.
	absent state = iota
	// unmounted: what is there is no mount point.
	unmounted
	// mountPoint: something is mounted there.
	mountPoint
	// listed: the host's mounter says that something is mounted there, and the kernel that nothing is. So it is with a
	// mounter that only keeps a table, such as mount-utils' FakeMounter.
	listed
)

// look tells what is at path. What is neither a directory nor a mount point is an error.
func (p *Plugin) look(path string) (state, error) {
	there, _, err := p.lookAt(path)
	return there, err
}

// lookAt tells the permissions of an unmounted directory, too.
func (p *Plugin) lookAt(path string) (there state, mode fs.FileMode, err error) {
	// First, since it answers even if what is mounted there does not.
	there, err = p.stateOf(path)
	if err != nil || there != unmounted {
		return there, 0, err
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return absent, 0, nil
	}
	if err != nil {
		return absent, 0, err
	}
	if !info.IsDir() {
		return absent, 0, volume.Errorf(volume.ErrInUse, "%s is not a directory (%s): remove it", path, info.Mode())
	}
	return unmounted, info.Mode().Perm(), nil
}

// stateOf tells whether something is mounted at path, whatever is there.
func (p *Plugin) stateOf(path string) (state, error) {
	there, err := p.mountState(path)
	if errors.Is(err, fs.ErrNotExist) {
		return absent, nil
	}
	if err != nil {
		return absent, fmt.Errorf("find out whether %s is a mount point: %w", path, err)
	}
	return there, nil
}
