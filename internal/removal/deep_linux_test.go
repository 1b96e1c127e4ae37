// SPDX-License-Identifier: Apache-2.0

package removal_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/internal/removal"
	"golang.org/x/sys/unix"
)

func TestATreeOf100000LevelsIsRemovedWithFewDescriptors(t *testing.T) {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	dir := t.TempDir()
	mount(t, "tmpfs", dir, "tmpfs", 0) // on a disk, each level takes a block
	path := filepath.Join(dir, "volume")
	deepTree(t, path, 100_000, strings.Repeat("n", 255))
	limitDescriptors(t)
	require.NoError(t, removal.All(t.Context(), path))
	assert.NoDirExists(t, path)
}

func TestATreeThatIsDeeperThanAPathCanBeIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "volume")
	deepTree(t, path, 300, strings.Repeat("n", 100))
	limitDescriptors(t)
	require.NoError(t, removal.Contents(t.Context(), path))
	assert.Empty(t, names(t, path))
	require.NoError(t, removal.All(t.Context(), path))
}

func TestATreeThatIsDeepInManyPlacesIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "volume")
	at := path
	for i := range 80 {
		write(t, filepath.Join(at, "file"))
		if i%10 == 0 {
			for j := range 3 {
				deepTree(t, filepath.Join(at, fmt.Sprint("branch", j)), 45, "b")
			}
		}
		at = filepath.Join(at, "d")
	}
	write(t, at)
	limitDescriptors(t)
	require.NoError(t, removal.All(t.Context(), path))
	assert.NoDirExists(t, path)
}

func TestAFailureInAVeryDeepTreeIsReportedInFewWords(t *testing.T) {
	mountns.RequirePrivate(t)
	path := filepath.Join(t.TempDir(), "volume")
	deepTree(t, path, 300, strings.Repeat("n", 100))
	bottom := func(on bool) {
		t.Helper()
		t.Chdir(path)
		for range 10 {
			require.NoError(t, unix.Chdir(strings.Repeat(strings.Repeat("n", 100)+"/", 30)))
		}
		setImmutable(t, "file", on)
		require.NoError(t, unix.Chdir(path))
	}
	bottom(true)
	err := removal.All(t.Context(), path)
	bottom(false)
	require.ErrorIs(t, err, unix.EPERM)
	assert.ErrorContains(t, err, path)
	assert.ErrorContains(t, err, "/file")
	assert.Less(t, len(err.Error()), 4096)
	require.NoError(t, removal.All(t.Context(), path))
}

// limitDescriptors lets the test open no more than 40 descriptors beside those that are open.
func limitDescriptors(t testing.TB) {
	t.Helper()
	var was unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	highest := 0
	for _, name := range names(t, "/proc/self/fd") {
		var fd int
		_, err := fmt.Sscan(name, &fd)
		require.NoError(t, err)
		highest = max(highest, fd)
	}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(highest + 40), Max: was.Max}))
	t.Cleanup(func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was)) })
}
