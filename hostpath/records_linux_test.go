// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/volume"
)

// TestBeginRefusesADirectoryThatWasTakenMeanwhile is about the moment between looking at the records and writing them.
func TestBeginRefusesADirectoryThatWasTakenMeanwhile(t *testing.T) {
	base := t.TempDir()
	fd, err := open(base, unix.O_RDONLY|unix.O_DIRECTORY, true)
	require.NoError(t, err)
	defer unix.Close(fd)
	r := records{base: fd, path: base}
	at := func(elements ...string) location { return location{base: base, elements: elements} }
	require.NoError(t, r.begin(at("a", "b"), "first"))
	assert.NoError(t, r.begin(at("a", "b"), "first"), "its own")
	for _, taken := range []location{at("a", "b"), at("a"), at("a", "b", "c")} {
		assert.ErrorIs(t, r.begin(taken, "second"), volume.ErrInUse, filepath.Join(taken.elements...))
	}
	owner, err := r.owner(at("a", "b"))
	require.NoError(t, err)
	assert.Equal(t, "first", owner)
}
