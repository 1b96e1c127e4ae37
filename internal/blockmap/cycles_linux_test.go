// SPDX-License-Identifier: Apache-2.0

package blockmap

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/mounter"
)

// open counts the open files of this process.
func open(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

func TestAThousandCyclesLeaveNothing(t *testing.T) {
	device, _ := newDevice(t)
	root, mounter := t.TempDir(), mounter.New()
	m := mappingIn(root, device.Path, "uid-a")
	before := 0
	for i := range 1000 {
		_, err := Map(t.Context(), mounter, m)
		require.NoError(t, err)
		require.NoError(t, Unmap(t.Context(), mounter, m))
		if i == 0 {
			before = open(t) // what is opened once and kept is open
		}
	}
	assert.Equal(t, before, open(t))
	requireNothing(t, root, m)
}
