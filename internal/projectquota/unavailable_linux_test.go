// SPDX-License-Identifier: Apache-2.0

package projectquota

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mountns"
)

func TestAFileSystemWithoutProjectsIsToldFromAnError(t *testing.T) {
	mountns.RequirePrivate(t)
	dir := t.TempDir()
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(dir, 0)) })
	require.ErrorIs(t, Supported(dir), errors.ErrUnsupported)

	require.ErrorIs(t, Supported(filepath.Join(dir, "absent")), os.ErrNotExist)
	require.NotErrorIs(t, Supported(filepath.Join(dir, "absent")), errors.ErrUnsupported)
}

func TestASymbolicLinkIsNotFollowed(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(t.TempDir(), link))
	require.ErrorIs(t, Supported(link), unix.ENOTDIR)
	require.ErrorIs(t, Set(link, FirstID, 0, 0), unix.ENOTDIR)
	_, err := ID(link)
	require.ErrorIs(t, err, unix.ENOTDIR)
}

func TestWhatTheKernelReadsAndWritesHasItsSize(t *testing.T) {
	assert.EqualValues(t, attributesSize, unsafe.Sizeof(attributes{}))
	assert.EqualValues(t, 72, unsafe.Sizeof(quota{}))
	assert.EqualValues(t, 160, unsafe.Sizeof(state{}))
	assert.EqualValues(t, 24, unsafe.Sizeof(fileAttributes{}))
}
