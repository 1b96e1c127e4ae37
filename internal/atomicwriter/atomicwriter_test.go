// SPDX-License-Identifier: Apache-2.0

package atomicwriter

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var plain = Directories{Mode: 0o755}

func write(t *testing.T, dir string, payload Payload) {
	t.Helper()
	require.NoError(t, Write(t.Context(), dir, payload, nil, plain))
}

// requireHolds fails unless the directory holds the payload and nothing else, and each name leads to its file.
func requireHolds(t *testing.T, dir string, payload Payload, message ...any) {
	t.Helper()
	require.True(t, Holds(dir, payload, plain), message...)
	names := payload.firstElements()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), "..") {
			require.Equal(t, fs.ModeSymlink, entry.Type())
			require.Contains(t, names, entry.Name(), message...)
		}
	}
	require.Len(t, entries, len(names)+2, message...)
	for path, file := range payload {
		data, err := os.ReadFile(filepath.Join(dir, path))
		require.NoError(t, err, message...)
		require.Equal(t, file.Data, string(data))
	}
}

func TestTheFilesOfADirectoryAreReplaced(t *testing.T) {
	dir := t.TempDir()
	for _, payload := range []Payload{before, after, {}, before, before} {
		write(t, dir, payload)
		requireHolds(t, dir, payload)
	}
}

func TestFilesThatAreKnownToBeThereAreNotWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, before)
	same, err := os.Stat(filepath.Join(dir, "same"))
	require.NoError(t, err)
	changed, err := os.Stat(filepath.Join(dir, "changed"))
	require.NoError(t, err)
	require.NoError(t, Write(t.Context(), dir, after, before, plain))
	requireHolds(t, dir, after)
	sameNow, err := os.Stat(filepath.Join(dir, "same"))
	require.NoError(t, err)
	changedNow, err := os.Stat(filepath.Join(dir, "changed"))
	require.NoError(t, err)
	assert.True(t, os.SameFile(same, sameNow))
	assert.False(t, os.SameFile(changed, changedNow))

	require.NoError(t, os.RemoveAll(filepath.Join(dir, dataName)))
	require.NoError(t, Write(t.Context(), dir, before, after, plain), "what is not there is written")
	requireHolds(t, dir, before)
}

func TestOpenFilesStayAsTheyAre(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, before)
	file, err := os.Open(filepath.Join(dir, "changed"))
	require.NoError(t, err)
	defer file.Close()
	write(t, dir, after)
	data, err := io.ReadAll(file)
	require.NoError(t, err)
	assert.Equal(t, "before", string(data))
}

func TestAReaderNeverSeesHalfAnUpdate(t *testing.T) {
	dir := t.TempDir()
	version := func(n int) Payload {
		payload := make(Payload)
		for i := range 20 {
			payload[fmt.Sprintf("dir%d/file%d", i%3, i)] = File{Data: fmt.Sprint(n), Mode: 0o644}
		}
		return payload
	}
	write(t, dir, version(0))
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				// As a program does that wants several files which belong together.
				current, err := os.OpenRoot(filepath.Join(dir, dataName))
				if !assert.NoError(t, err) {
					return
				}
				seen := make(map[string]int)
				for path := range version(0) {
					data, err := current.ReadFile(path)
					if errors.Is(err, fs.ErrNotExist) {
						seen = nil // these files have been replaced, all of them
						break
					}
					assert.NoError(t, err)
					seen[string(data)]++
				}
				current.Close()
				assert.LessOrEqual(t, len(seen), 1)
				// As one does that wants a single file.
				data, err := os.ReadFile(filepath.Join(dir, "dir1", "file1"))
				if !errors.Is(err, fs.ErrNotExist) { // replaced between two steps of its path
					assert.NoError(t, err)
					assert.NotEmpty(t, data)
				}
			}
		})
	}
	for n := range 300 {
		write(t, dir, version(n))
	}
	close(done)
	readers.Wait()
}

func TestAPathThatNoFileCanHaveIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	for _, path := range []string{"", "/x", "../x", "..", "..x", "a/../b", "a/..", "./a", "a//b", "a/", ".", "a/./b", "a\x00b", strings.Repeat("a", 256), strings.Repeat("a/", 2100) + "a"} {
		t.Run(fmt.Sprintf("%.20q", path), func(t *testing.T) {
			dir := t.TempDir()
			require.ErrorIs(t, Write(t.Context(), dir, Payload{path: {}, "good": {}}, nil, plain), ErrPath)
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			assert.Empty(t, entries)
		})
	}
	require.ErrorIs(t, Payload{"a": {}, "a/b": {}}.Check(), ErrPath)
	require.NoError(t, Payload{"a..b": {}, ".hidden": {}, "x/..y": {}, strings.Repeat("é", 127): {}}.Check())
}

func TestWhatElseIsInTheDirectoryStays(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "mountpoint"), 0o755))
	require.NoError(t, os.Symlink("elsewhere", filepath.Join(dir, "link")))
	write(t, dir, before)
	write(t, dir, after)
	assert.DirExists(t, filepath.Join(dir, "mountpoint"))
	target, err := os.Readlink(filepath.Join(dir, "link"))
	require.NoError(t, err)
	assert.Equal(t, "elsewhere", target)

	err = Write(t.Context(), dir, Payload{"mountpoint": {Data: "x"}, "new2": {}}, nil, plain)
	require.ErrorContains(t, err, "is not what was put there")
	require.True(t, Holds(dir, after, plain), "the files are what they were")
	assert.NoFileExists(t, filepath.Join(dir, "new2"))
}

func TestWhatDoesNotHoldThePayloadIsFoundOut(t *testing.T) {
	for name, change := range map[string]func(dir, current string) error{
		"content": func(_, current string) error {
			return os.WriteFile(filepath.Join(current, "changed"), []byte("bEfore"), 0)
		},
		"length":       func(_, current string) error { return os.WriteFile(filepath.Join(current, "changed"), []byte("x"), 0) },
		"mode":         func(_, current string) error { return os.Chmod(filepath.Join(current, "same"), 0o600) },
		"missing":      func(_, current string) error { return os.Remove(filepath.Join(current, "same")) },
		"more":         func(_, current string) error { return os.WriteFile(filepath.Join(current, "more"), nil, 0o644) },
		"directory":    func(_, current string) error { return os.Chmod(filepath.Join(current, "dir"), 0o700) },
		"no directory": func(_, current string) error { return os.RemoveAll(current) },
		"no link":      func(dir, _ string) error { return os.Remove(filepath.Join(dir, dataName)) },
		"link elsewhere": func(dir, _ string) error {
			return errors.Join(os.Remove(filepath.Join(dir, dataName)), os.Symlink("/", filepath.Join(dir, dataName)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, before)
			current, err := Current(dir)
			require.NoError(t, err)
			require.True(t, Holds(dir, before, plain))
			require.False(t, Holds(dir, after, plain))
			require.False(t, Holds(dir, before, Directories{Mode: 0o700}))
			require.NoError(t, change(dir, filepath.Join(dir, current)))
			require.False(t, Holds(dir, before, plain))
			write(t, dir, before)
			requireHolds(t, dir, before)
		})
	}
}

func FuzzAPathIsRefusedOrIsThatOfAFileInTheDirectory(f *testing.F) {
	for _, seed := range []string{"a", "a/b", "../x", "..data", "a/../../x", "/etc/passwd", ".", "a\x00"} {
		f.Add(seed)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, path string) {
		payload := Payload{path: {Data: "x", Mode: 0o600}}
		if CheckPath(path) != nil {
			require.ErrorIs(t, Write(t.Context(), dir, payload, nil, plain), ErrPath)
			return
		}
		write(t, dir, payload)
		require.True(t, filepath.IsLocal(path))
		data, err := os.ReadFile(filepath.Join(dir, path))
		require.NoError(t, err)
		require.Equal(t, "x", string(data))
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 3)
	})
}
