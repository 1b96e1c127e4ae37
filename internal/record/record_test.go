// SPDX-License-Identifier: Apache-2.0

package record

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
	names, err := List(filepath.Dir(path))
	require.NoError(t, err)
	assert.Equal(t, []string{"one"}, names)
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

func TestADirectoryOfRecordsIsRemovedWithWhatACrashLeftInIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "records")
	require.NoError(t, Write(filepath.Join(dir, "one"), 1, content{}))
	require.NoError(t, os.WriteFile(filepath.Join(dir, temporary+"123"), nil, 0o600))

	require.NoError(t, RemoveDir(dir))
	assert.DirExists(t, dir, "a record is left")

	require.NoError(t, Remove(filepath.Join(dir, "one")))
	require.NoError(t, Remove(filepath.Join(dir, "one")), "again")
	require.NoError(t, RemoveDir(dir))
	assert.NoDirExists(t, dir)
	require.NoError(t, RemoveDir(dir), "again")
}

func TestWritersAndRemoversOfOneDirectoryDoNotFailEachOther(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "records")
	var running sync.WaitGroup
	for _, name := range strings.Split("abcdefgh", "") {
		running.Go(func() {
			path := filepath.Join(dir, name)
			for range 200 {
				assert.NoError(t, Write(path, 1, content{name}))
				assert.NoError(t, Remove(path))
				assert.NoError(t, RemoveDir(dir))
			}
		})
	}
	running.Wait()
	assert.NoDirExists(t, dir)
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
