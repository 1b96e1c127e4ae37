// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/objects/localissuer"
	"github.com/volumekit/volumekit/volume"
)

func isNotFound(err error) bool { return errors.Is(err, volume.ErrNotFound) }

// withTokens gives the host an issuer of tokens.
func withTokens(t *testing.T) func(*volume.Host) {
	return func(h *volume.Host) {
		issuer, err := localissuer.New(localissuer.Options{Clock: h.Clock})
		require.NoError(t, err)
		h.Tokens = issuer
	}
}

// ownedMode tells who may use a file: "-rw-r--r-- 0:0".
func ownedMode(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	stat := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%s %d:%d", info.Mode(), stat.Uid, stat.Gid)
}

// changeTimes tells when the files of a volume were changed.
func changeTimes(t *testing.T, dir string) map[string]syscall.Timespec {
	t.Helper()
	times := make(map[string]syscall.Timespec)
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		times[path] = info.Sys().(*syscall.Stat_t).Ctim
		return err
	}))
	return times
}

// copyTree copies a volume as it is.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		require.NoError(t, err)
		target := filepath.Join(to, relative)
		switch {
		case e.IsDir():
			return os.MkdirAll(target, 0o755)
		case e.Type() == fs.ModeSymlink:
			link, err := os.Readlink(path)
			require.NoError(t, err)
			return os.Symlink(link, target)
		}
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		return os.WriteFile(target, data, 0o644)
	}))
}
