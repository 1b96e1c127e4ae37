// SPDX-License-Identifier: Apache-2.0

package hostpath_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
)

func TestNoPermissionNamesTheDirectory(t *testing.T) {
	mountns.AsOrdinaryUser(t, func(t *testing.T) {
		bothWays(t, func(t *testing.T, plugin *hostpath.Plugin, dir string) {
			closed := filepath.Join(dir, "closed")
			require.NoError(t, os.MkdirAll(filepath.Join(closed, "x"), 0o700))
			require.NoError(t, os.Symlink(filepath.Join(closed, "x"), filepath.Join(dir, "link")))
			require.NoError(t, os.Chmod(closed, 0o600))
			defer os.Chmod(closed, 0o700)
			for kind := range wants {
				for _, path := range []string{filepath.Join(closed, "x"), filepath.Join(closed, "x", "y"), filepath.Join(dir, "link")} {
					err := setUp(t, plugin, path, kind)
					require.ErrorIs(t, err, fs.ErrPermission, "%s as %s", path, kind)
					assert.NotErrorIs(t, err, volume.ErrNotFound)
					assert.NotErrorIs(t, err, volume.ErrInvalid)
					assert.ErrorContains(t, err, `directory "`+closed+`" may not be searched`)
					assert.Equal(t, volume.Unknown, presence(t, plugin, path, kind))
				}
			}
		})
	})
}

func TestNoPermissionToCreateNamesThePath(t *testing.T) {
	mountns.AsOrdinaryUser(t, func(t *testing.T) {
		bothWays(t, func(t *testing.T, plugin *hostpath.Plugin, dir string) {
			readOnly := filepath.Join(dir, "read-only")
			require.NoError(t, os.Mkdir(readOnly, 0o500))
			for kind := range creates {
				path := filepath.Join(readOnly, "x")
				err := setUp(t, plugin, path, kind)
				require.ErrorIs(t, err, fs.ErrPermission)
				assert.ErrorContains(t, err, path)
				assert.Equal(t, volume.Absent, presence(t, plugin, path, kind))
			}
		})
	})
}

// TestADirectoryThatCanOnlyBeEnteredIsNoObstacle has a parent that can be searched and written to, but not read.
func TestADirectoryThatCanOnlyBeEnteredIsNoObstacle(t *testing.T) {
	mountns.AsOrdinaryUser(t, func(t *testing.T) {
		bothWays(t, func(t *testing.T, plugin *hostpath.Plugin, dir string) {
			dropBox := filepath.Join(dir, "drop-box")
			require.NoError(t, os.Mkdir(dropBox, 0o300))
			defer os.Chmod(dropBox, 0o700)
			setUmask(t, 0o777)
			assert.NoError(t, setUp(t, plugin, filepath.Join(dropBox, "a", "b"), v1.HostPathDirectoryOrCreate))
			assert.NoError(t, setUp(t, plugin, filepath.Join(dropBox, "a", "file"), v1.HostPathFileOrCreate))
			wantMode(t, 0o644, filepath.Join(dropBox, "a", "file"))
		})
	})
}

func TestAnOrdinaryUserProvisionsAndDeletes(t *testing.T) {
	mountns.AsOrdinaryUser(t, func(t *testing.T) {
		setUmask(t, 0o077)
		f := newFixture(t, nil)
		pv := f.mustProvision(t, claim("data"))
		wantMode(t, fs.ModeDir|0o777, pv.Spec.HostPath.Path)
		require.NoError(t, f.delete(t, pv))
		f.wantEmpty(t)
	})
}

func TestAnOwnerThatCannotBeGivenIsAnErrorAndLeavesNothing(t *testing.T) {
	mountns.AsOrdinaryUser(t, func(t *testing.T) {
		for _, parameters := range []map[string]string{{"uid": "0"}, {"gid": "0"}} {
			f := newFixture(t, parameters)
			_, err := f.provision(t, claim("data"))
			require.ErrorIs(t, err, fs.ErrPermission)
			assert.ErrorContains(t, err, "pvc-data")
			f.wantEmpty(t)
		}
	})
}
