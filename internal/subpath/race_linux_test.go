// SPDX-License-Identifier: Apache-2.0

package subpath_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/subpath"
)

func TestADirectoryThatIsSwappedWithALinkNeverShowsTheHost(t *testing.T) {
	volume, subpaths := begin(t)
	mount(t, "tmpfs", volume, "tmpfs", 0)
	var inside unix.Stat_t
	require.NoError(t, unix.Stat(volume, &inside))
	// What a broken Bind shows, the end of the test may remove.
	host := t.TempDir()
	mkdir(t, filepath.Join(host, "ssl"))
	relative, err := filepath.Rel(volume, host)
	require.NoError(t, err)
	links := map[string]string{"absolute": host, "relative": relative}
	for name, to := range links {
		mkdir(t, filepath.Join(volume, name, "ssl"))
		link(t, to, filepath.Join(volume, name+"-link"))
	}
	swaps, stop := make(chan int), make(chan struct{})
	go func() {
		n := 0
		defer func() { swaps <- n }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			for name := range links {
				path := filepath.Join(volume, name)
				if unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, path+"-link", unix.RENAME_EXCHANGE) == nil {
					n++
				}
			}
		}
	}()

	const rounds = 3000
	target := filepath.Join(subpaths, "v/c/0")
	subPaths := []string{"absolute", "absolute/ssl", "absolute/made", "relative", "relative/ssl", "relative/made/deep"}
	shown, refused := 0, 0
	for i := range rounds {
		err := subpath.Bind(t.Context(), volume, subPaths[i%len(subPaths)], target)
		switch {
		case err == nil:
			shown++
			var stat unix.Stat_t
			require.NoError(t, unix.Lstat(target, &stat))
			require.Equal(t, inside.Dev, stat.Dev, "what is mounted is in the volume")
			require.True(t, mounted(t, target))
		case errors.Is(err, subpath.ErrOutside):
			refused++
		default: // seen while it changed
			require.True(t, errors.Is(err, unix.EAGAIN) || errors.Is(err, fs.ErrNotExist), "%v", err)
		}
	}
	close(stop)
	assert.Greater(t, <-swaps, rounds, "the race must have been one")
	assert.Positive(t, shown)
	assert.Positive(t, refused)
	assert.NoDirExists(t, filepath.Join(host, "made"))
	t.Logf("%d shown, %d refused", shown, refused)
	require.NoError(t, subpath.Clean(t.Context(), subpaths))
}
