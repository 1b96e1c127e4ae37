// SPDX-License-Identifier: Apache-2.0

//go:build unix

package record

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhateverIsInTheWayOfAnUnfinishedRecordIsNotOpened(t *testing.T) {
	for name, put := range map[string]func(path, precious string) error{
		"a link":       func(path, precious string) error { return os.Symlink(precious, path) },
		"a named pipe": func(path, _ string) error { return syscall.Mkfifo(path, 0o600) },
		"another file": func(path, precious string) error { return os.Link(precious, path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			precious, path := filepath.Join(dir, "precious"), filepath.Join(dir, "one")
			require.NoError(t, os.WriteFile(precious, []byte("gold"), 0o600))
			require.NoError(t, put(temporary(path), precious))
			require.NoError(t, Write(path, 1, content{"new"}))
			data, err := os.ReadFile(precious)
			require.NoError(t, err)
			assert.Equal(t, "gold", string(data))
		})
	}
}
