// SPDX-License-Identifier: Apache-2.0

package hardlimit

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/volumekit/volumekit/internal/projectquota"
)

// supported returns nil if dir can be given a project of its own.
func supported(dir string) error {
	id, err := projectquota.ID(dir)
	if err != nil {
		return err
	}
	if id != 0 {
		// Out of it, what is in the directory would no longer count for the limit that somebody else has set.
		return fmt.Errorf("%s belongs to the project %d already: %w", dir, id, errors.ErrUnsupported)
	}
	return projectquota.Supported(dir)
}

// projectOf returns the project of dir, whether it is one that was made for it alone, and whether that has its limit, which
// comes last.
func projectOf(dir string) (id uint32, own, complete bool, err error) {
	id, err = projectquota.ID(dir)
	if err != nil || !projectquota.Ours(id) {
		return id, false, false, err
	}
	// What is made in a directory takes its project over. An error means that the one above is on a file system without projects.
	if above, err := projectquota.ID(filepath.Dir(dir)); err == nil && above == id {
		return id, false, false, nil
	}
	usage, err := projectquota.UsageOf(dir, id)
	return id, true, usage.Limit > 0, err
}

func applyProject(dir string, bytes uint64) error {
	id, own, complete, err := projectOf(dir)
	switch {
	case err != nil:
		return err
	case !own:
		if id, err = projectquota.FreeID(dir); err != nil {
			return err
		}
	case complete:
		usage, err := projectquota.UsageOf(dir, id)
		if err != nil || usage.Limit == roundUp(bytes, 1024) {
			return err
		}
		return projectquota.Limit(dir, id, bytes, 0)
	}
	return projectquota.Set(dir, id, bytes, 0)
}

// removeProject lifts the limit, and takes the directory out of the project. What is in it keeps the number of the project, which
// then means nothing.
func removeProject(dir string) error {
	id, own, _, err := projectOf(dir)
	if err != nil || !own {
		return err
	}
	if err := projectquota.Limit(dir, id, 0, 0); err != nil {
		return err
	}
	return projectquota.Leave(dir, id)
}

func growProject(dir string, bytes uint64) error {
	id, _, _, err := projectOf(dir)
	if err != nil {
		return err
	}
	usage, err := projectquota.UsageOf(dir, id)
	if err != nil || usage.Limit >= bytes {
		return err
	}
	return projectquota.Limit(dir, id, bytes, 0)
}
