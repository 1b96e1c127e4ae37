// SPDX-License-Identifier: Apache-2.0

package directory

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/objects"
)

func TestAPipeThatNobodyWritesToIsNotWaitedFor(t *testing.T) {
	path := t.TempDir()
	require.NoError(t, unix.Mkfifo(filepath.Join(path, "pipe.yaml"), 0o600))
	require.ErrorContains(t, New(path, objects.NewStore(), Options{}).Load(t.Context()), "is no manifest")
}
