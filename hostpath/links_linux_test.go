// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestALinkThatAppearsLateIsNotFollowed is about the moment between resolving a path and using it, which is too short to
// be hit from outside.
func TestALinkThatAppearsLateIsNotFollowed(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link")))
	require.NoError(t, os.Mkdir(filepath.Join(outside, "there"), 0o755))
	for name, use := range map[string]func(path string) error{
		"stat":     func(path string) error { _, err := statNoLinks(filepath.Join(path, "there")); return err },
		"stat it":  func(path string) error { _, err := statNoLinks(path); return err },
		"makeDirs": func(path string) error { return makeDirs(filepath.Join(path, "a", "b"), false) },
		"makeDir":  func(path string) error { return makeDirs(filepath.Join(path, "a"), false) },
		"makeFile": func(path string) error { return makeFile(filepath.Join(path, "file"), 0o644, false) },
	} {
		assert.ErrorIs(t, use(filepath.Join(dir, "link")), syscall.ELOOP, name)
	}
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "what was made where the link leads")
}
