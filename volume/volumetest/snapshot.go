// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// snapshot tells for each path what lstat says, as far as it does not change by looking. Any change of a file or directory
// shows, since none escapes its ctime (on Linux; elsewhere the time of its modification has to do).
type snapshot map[string]string

// takeSnapshot looks at everything below the directories, mounts included. A directory that is absent is an empty one.
func takeSnapshot(t testing.TB, dirs ...string) snapshot {
	t.Helper()
	seen := make(snapshot)
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := os.Lstat(path)
			if err != nil {
				return err
			}
			seen[path] = describe(info)
			if info.Mode()&fs.ModeSymlink != 0 {
				target, err := os.Readlink(path)
				seen[path] += " -> " + target
				return err
			}
			return nil
		})
		if !errors.Is(err, fs.ErrNotExist) {
			require.NoError(t, err)
		}
	}
	return seen
}

func describe(info fs.FileInfo) string {
	return fmt.Sprintf("%v, %d bytes%s", info.Mode(), info.Size(), statText(info))
}

// changes lists what differs in the later snapshot.
func (s snapshot) changes(later snapshot) []string {
	var changes []string
	for path, before := range s {
		switch now, there := later[path]; {
		case !there:
			changes = append(changes, "- "+path)
		case now != before:
			changes = append(changes, fmt.Sprintf("! %s: %s, before: %s", path, now, before))
		}
	}
	for path := range later {
		if _, there := s[path]; !there {
			changes = append(changes, "+ "+path)
		}
	}
	slices.Sort(changes)
	return changes
}
