// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/loopdev"
	"github.com/volumekit/volumekit/volume"
)

// newImage makes a blank file.
func newImage(t *testing.T, path string, size int64) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, size))
	return path
}

// attachedDevice makes a block device of a file, for the time of the test.
func attachedDevice(t *testing.T, image string) string {
	t.Helper()
	h, err := loopdev.Attach(t.Context(), image, loopdev.Options{})
	require.NoError(t, err)
	require.NoError(t, h.Close())
	t.Cleanup(func() { assert.NoError(t, loopdev.Detach(t.Context(), h.Device)) })
	return h.Path
}

// newPlugin returns a plugin with a root of its own.
func newPlugin(t *testing.T) *Plugin {
	t.Helper()
	return pluginIn(t, filepath.Join(t.TempDir(), "root"))
}

func pluginIn(t *testing.T, root string) *Plugin {
	t.Helper()
	host, err := volume.Host{Root: root}.Complete()
	require.NoError(t, err)
	p := New(Options{})
	require.NoError(t, p.Init(t.Context(), host))
	return p
}
