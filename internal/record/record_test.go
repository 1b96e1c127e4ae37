// SPDX-License-Identifier: Apache-2.0

package record

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type content struct {
	Name string `json:"name"`
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "directories", "one")
	require.NoError(t, Write(path, 1, content{"first"}))
	require.NoError(t, Write(path, 1, content{"second"}), "a record is replaced")

	var got content
	require.NoError(t, Read(path, 1, &got))
	assert.Equal(t, content{"second"}, got)
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, entries, 1)
}

func TestAMissingRecordIsNotADamagedOne(t *testing.T) {
	err := Read(filepath.Join(t.TempDir(), "none"), 1, &content{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	assert.NotErrorIs(t, err, ErrDamaged)
}

func TestARecordCutAtAnyByteIsDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "one")
	require.NoError(t, Write(path, 1, content{"a name"}))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for n := range whole {
		require.NoError(t, os.WriteFile(path, whole[:n], 0o600))
		require.ErrorIs(t, Read(path, 1, &content{}), ErrDamaged, "%d of %d bytes", n, len(whole))
	}
}

func TestARecordOfAnotherVersionIsDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "one")
	require.NoError(t, Write(path, 2, content{"from the future"}))
	err := Read(path, 1, &content{})
	require.ErrorIs(t, err, ErrDamaged)
	assert.ErrorContains(t, err, "version 2")
}

func TestAFailedWriteLeavesTheOldRecordAndNoTemporaryFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "one")
	require.NoError(t, os.MkdirAll(filepath.Join(path, "a directory in the way"), 0o750))
	require.Error(t, Write(path, 1, content{"new"}))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1)
}

func TestARecordThatWasBegunExistsAndIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "one")
	assert.False(t, Exists(path))
	require.NoError(t, os.WriteFile(temporary(path), []byte("{"), 0o600))
	assert.True(t, Exists(path))
	require.NoError(t, Remove(path))
	assert.True(t, Exists(path))
	require.NoError(t, RemoveUnfinished(path))
	assert.False(t, Exists(path))
	require.NoError(t, RemoveUnfinished(path), "again")
}

func TestAWriterAndARemoverOfTheDirectoryDoNotFailEachOther(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "records")
	path := filepath.Join(dir, "one")
	written := make(chan struct{})
	// A remover that never pauses could be faster than the writer every time: it has fewer turns than the writer has attempts.
	var turns atomic.Int32
	var running sync.WaitGroup
	running.Go(func() {
		defer close(written)
		for range 200 {
			turns.Store(creationAttempts / 2)
			assert.NoError(t, Write(path, 1, content{"one"}))
			assert.NoError(t, Remove(path))
		}
	})
	running.Go(func() {
		for {
			select {
			case <-written:
				return
			default:
				if turns.Load() > 0 && os.Remove(dir) == nil {
					turns.Add(-1)
				}
			}
		}
	})
	running.Wait()
}

func FuzzReadNeverPanics(f *testing.F) {
	f.Add([]byte(`{"version":1,"content":{"name":"x"}}`))
	f.Add([]byte(`{"version":1,"content":null}`))
	f.Add([]byte(``))
	path := filepath.Join(f.TempDir(), "one")
	f.Fuzz(func(t *testing.T, data []byte) {
		require.NoError(t, os.WriteFile(path, data, 0o600))
		if err := Read(path, 1, &content{}); err != nil {
			require.ErrorIs(t, err, ErrDamaged)
		}
	})
}
