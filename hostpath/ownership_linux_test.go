// SPDX-License-Identifier: Apache-2.0

package hostpath_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/volume"
)

func TestFSGroupChangesNoOwnerAndSaysSo(t *testing.T) {
	plugin, dir := start(t, hostpath.Options{}), t.TempDir()
	existing := filepath.Join(dir, "existing")
	file := filepath.Join(existing, "file")
	require.NoError(t, os.Mkdir(existing, 0o700))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	before := []owned{describe(t, existing), describe(t, file)}
	fsGroup := int64(2000)
	for path, kind := range map[string]v1.HostPathType{
		existing:                   v1.HostPathDirectoryOrCreate,
		file:                       "",
		filepath.Join(dir, "made"): v1.HostPathDirectoryOrCreate,
	} {
		var warnings []string
		options := volume.SetUpOptions{FSGroup: &fsGroup, Warn: func(w string) { warnings = append(warnings, w) }}
		mounter := mounterOf(t, plugin, inline(path, kind))
		assert.False(t, mounter.Attributes().Managed)
		require.NoError(t, mounter.SetUp(t.Context(), options))
		require.Len(t, warnings, 1, path)
		assert.Contains(t, warnings[0], "fsGroup 2000 has no effect")
		assert.Contains(t, warnings[0], path)
	}
	assert.Equal(t, before, []owned{describe(t, existing), describe(t, file)}, "what existed has changed")
	made := describe(t, filepath.Join(dir, "made"))
	assert.EqualValues(t, os.Getegid(), made.gid, "what was created stays its creator's")
}

func TestWithoutFSGroupThereIsNoWarning(t *testing.T) {
	plugin := start(t, hostpath.Options{})
	options := volume.SetUpOptions{Warn: func(w string) { t.Error(w) }}
	require.NoError(t, mounterOf(t, plugin, inline(t.TempDir(), v1.HostPathDirectory)).SetUp(t.Context(), options))
}
