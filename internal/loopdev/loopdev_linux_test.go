// SPDX-License-Identifier: Apache-2.0

package loopdev

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/mountns"
)

// image makes a file of the size.
func image(t testing.TB, size int64) string {
	t.Helper()
	mountns.RequirePrivate(t)
	path := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, size))
	return path
}

// attachFor attaches the file for the time of the test.
func attachFor(t *testing.T, path string, o Options) *Handle {
	t.Helper()
	h, err := Attach(t.Context(), path, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, Detach(t.Context(), h.Device))
		_ = h.Close()
	})
	return h
}

func TestAFileIsFoundAgainByWhatItIs(t *testing.T) {
	path := image(t, 1<<20)
	id, err := FileIDOf(path)
	require.NoError(t, err)
	none, err := Find(t.Context(), id)
	require.NoError(t, err)
	assert.Empty(t, none)

	first, second := attachFor(t, path, Options{}), attachFor(t, path, Options{ReadOnly: true})
	require.NoError(t, os.Remove(path))
	found, err := Find(t.Context(), id)
	require.NoError(t, err)
	assert.ElementsMatch(t, []Device{first.Device, second.Device}, found)
	assert.False(t, first.ReadOnly)
	assert.True(t, second.ReadOnly)
	assert.Equal(t, path[:min(len(path), 62)], first.BackingName)
	for _, h := range []*Handle{first, second} {
		require.NoError(t, h.Close())
		require.NoError(t, Detach(t.Context(), h.Device))
		require.NoError(t, Detach(t.Context(), h.Device))
	}
	found, err = Find(t.Context(), id)
	require.NoError(t, err)
	assert.Empty(t, found)
}

func TestManyAreAttachedAtOnce(t *testing.T) {
	path := image(t, 1<<20)
	const n = 100
	handles := make([]*Handle, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			var err error
			handles[i], err = Attach(t.Context(), path, Options{})
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	numbers := make(map[int]bool)
	for _, h := range handles {
		if h != nil {
			numbers[h.Number] = true
			assert.NoError(t, Detach(t.Context(), h.Device))
			assert.NoError(t, h.Close())
		}
	}
	assert.Len(t, numbers, n)
	id, err := FileIDOf(path)
	require.NoError(t, err)
	found, err := Find(t.Context(), id)
	require.NoError(t, err)
	assert.Empty(t, found)
}
