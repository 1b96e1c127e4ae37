// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestADirectoryThatIsSwappedWithALinkLeadsNowhere(t *testing.T) {
	dir := quickDir(t)
	decoy, volume := filepath.Join(dir, "decoy"), filepath.Join(dir, "volume")
	fill := func(in string) {
		for i := range 20 {
			write(t, filepath.Join(in, fmt.Sprint("file", i)), 0o600)
			write(t, filepath.Join(in, "sub", fmt.Sprint("file", i)), 0o600)
		}
	}
	fill(decoy)
	write(t, filepath.Join(decoy, "target"), 0o600)
	want := states(t, decoy)
	places := []string{volume, filepath.Join(volume, "a", "b")}
	for _, in := range places {
		fill(filepath.Join(in, "swapped"))
		write(t, filepath.Join(in, "file"), 0o600)
		require.NoError(t, os.Symlink(decoy, filepath.Join(in, "link")))
		require.NoError(t, os.Symlink(filepath.Join(decoy, "target"), filepath.Join(in, "file link")))
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	var swaps atomic.Int64
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, in := range places {
				assert.NoError(t, exchange(filepath.Join(in, "swapped"), filepath.Join(in, "link")))
				assert.NoError(t, exchange(filepath.Join(in, "file"), filepath.Join(in, "file link")))
			}
			swaps.Add(1)
		}
	}()
	for round := 0; round < 1000 || swaps.Load() < 5000; round++ {
		_, err := Apply(t.Context(), volume, Options{Group: int64(testGroup + round%2)})
		require.NoError(t, err)
	}
	close(stop)
	<-stopped
	assert.Equal(t, want, states(t, decoy))
}

func TestASwapBetweenAnyTwoStepsLeadsNowhere(t *testing.T) {
	dir := quickDir(t)
	decoy := filepath.Join(dir, "decoy")
	write(t, filepath.Join(decoy, "file"), 0o600)
	want := states(t, decoy)
	for at := 2; ; at++ {
		volume := filepath.Join(dir, fmt.Sprint("volume", at))
		write(t, filepath.Join(volume, "a", "sub", "file"), 0o600)
		require.NoError(t, os.Symlink(decoy, filepath.Join(volume, "a", "link")))
		var was atomic.Bool
		_, err := Apply(&hooked{Context: t.Context(), hook: func(n int) {
			if n == at {
				was.Store(true)
				assert.NoError(t, exchange(filepath.Join(volume, "a", "sub"), filepath.Join(volume, "a", "link")))
			}
		}}, volume, Options{Group: testGroup})
		require.NoError(t, err)
		require.Equal(t, want, states(t, decoy))
		if !was.Load() {
			require.Greater(t, at, 5)
			return
		}
	}
}

func TestAnothersFileDoesNotBecomeASetuidProgram(t *testing.T) {
	dir := quickDir(t)
	volume := filepath.Join(dir, "volume")
	mine, theirs := filepath.Join(volume, "mine"), filepath.Join(volume, "theirs")
	write(t, theirs, 0o600)
	write(t, mine, 0o600)
	require.NoError(t, os.Chown(mine, 1000, 1000))
	stop, stopped := make(chan struct{}), make(chan struct{})
	var swaps atomic.Int64
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				assert.NoError(t, exchange(mine, theirs))
				swaps.Add(1)
			}
		}
	}()
	for round := 0; round < 3000 || swaps.Load() < 5000; round++ {
		for _, path := range []string{mine, theirs} { // the owner of one of them does this
			fd, err := openRoot(path)
			require.NoError(t, err)
			var st unix.Stat_t
			require.NoError(t, unix.Fstat(fd, &st))
			if st.Uid == 1000 {
				require.NoError(t, chmodThroughProc(fd, 0o4711))
			}
			unix.Close(fd)
		}
		_, err := Apply(t.Context(), volume, Options{Group: int64(testGroup + round%2)})
		require.NoError(t, err)
		for _, s := range states(t, volume) {
			if s.owner == 0 {
				require.Zero(t, s.mode&unix.S_ISUID)
			}
		}
	}
	close(stop)
	<-stopped
}

func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
