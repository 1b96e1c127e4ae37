// SPDX-License-Identifier: Apache-2.0

package mounter

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mountns"
)

func TestIsMountPoint(t *testing.T) {
	for name, restrict := range map[string]func() error{
		"by statx":           func() error { return nil },
		"by openat2":         refuse(unix.ENOSYS, unix.SYS_STATX),
		"by the mount table": refuse(unix.ENOSYS, unix.SYS_STATX, unix.SYS_OPENAT2),
	} {
		t.Run(name, func(t *testing.T) {
			m := begin(t)
			dir := t.TempDir()
			plain, bound, link := filepath.Join(dir, "plain"), filepath.Join(dir, "bound"), filepath.Join(dir, "link")
			file, boundFile, dangling := filepath.Join(dir, "file"), filepath.Join(dir, "bound file"), filepath.Join(dir, "dangling")
			for _, name := range []string{plain, bound} {
				require.NoError(t, os.Mkdir(name, 0o755))
			}
			for _, name := range []string{file, boundFile} {
				require.NoError(t, os.WriteFile(name, nil, 0o600))
			}
			require.NoError(t, os.Symlink(bound, link))
			require.NoError(t, os.Symlink("nowhere", dangling))
			require.NoError(t, m.Mount(plain, bound, "", []string{"bind"})) // of the same file system
			unmountAtEnd(t, m, bound)
			require.NoError(t, m.Mount(file, boundFile, "", []string{"bind"}))
			unmountAtEnd(t, m, boundFile)
			tmpfs := mountTmpfs(t, m)

			for path, want := range map[string]bool{
				plain: false, bound: true, link: true, file: false, boundFile: true, tmpfs: true, tmpfs + "/": true, "/": true,
			} {
				assert.NoError(t, onThread(t, restrict, func() error {
					mounted, err := m.IsMountPoint(path)
					assert.Equal(t, want, mounted, path)
					if err != nil {
						return err
					}
					notMounted, err := m.IsLikelyNotMountPoint(path)
					assert.Equal(t, !want, notMounted, path)
					return err
				}), path)
			}

			for path, want := range map[string]error{
				filepath.Join(dir, "absent"): fs.ErrNotExist, dangling: fs.ErrNotExist, filepath.Join(file, "inside"): unix.ENOTDIR,
			} {
				assert.NoError(t, onThread(t, restrict, func() error {
					mounted, err := m.IsMountPoint(path)
					assert.False(t, mounted)
					assert.ErrorIs(t, err, want)
					assert.Equal(t, want == fs.ErrNotExist, os.IsNotExist(err), "callers of mount-utils ask that way: %v", err)
					notMounted, err := m.IsLikelyNotMountPoint(path)
					assert.True(t, notMounted)
					assert.ErrorIs(t, err, want)
					return nil
				}))
			}
		})
	}
}

func TestIsMountPointAnswersForADeadServer(t *testing.T) {
	m := begin(t)
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	kill := mountns.DeadFUSE(t, dir)
	for _, server := range []string{"silent", "gone"} {
		for _, path := range []string{dir, link} {
			mounted, err := m.IsMountPoint(path) // if it asks the server, it hangs
			require.NoError(t, err, server)
			assert.True(t, mounted, server)
		}
		kill()
	}
}
