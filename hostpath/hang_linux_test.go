// SPDX-License-Identifier: Apache-2.0

package hostpath_test

import (
	"context"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
)

func TestWithoutATypeThePathIsNotTouched(t *testing.T) {
	plugin, dead := start(t, hostpath.Options{}), t.TempDir()
	mountns.DeadFUSE(t, dead)
	fsGroup := int64(2000)
	// Any system call on the path would hang until the test times out.
	for _, path := range []string{dead, filepath.Join(dead, "x")} {
		mounter := mounterOf(t, plugin, inline(path, ""))
		require.NoError(t, mounter.SetUp(context.Background(), volume.SetUpOptions{FSGroup: &fsGroup}))
		answer, err := mounter.Presence(context.Background())
		require.NoError(t, err)
		assert.Equal(t, volume.Present, answer)
	}
}

func TestADeadServerHoldsOneGoroutineAndNoCaller(t *testing.T) {
	plugin, dead := start(t, hostpath.Options{}), t.TempDir()
	kill := mountns.DeadFUSE(t, dead)
	path := filepath.Join(dead, "x")
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		returned := make(chan error, 1)
		mounter := mounterOf(t, plugin, inline(path, v1.HostPathDirectoryOrCreate))
		go func() { returned <- mounter.SetUp(ctx, volume.SetUpOptions{}) }()
		awaitGoroutine(t, "hostpath.stat", "hostpath.(*stuck).wait")
		cancel()
		err := <-returned
		require.ErrorIs(t, err, volume.ErrUncertain)
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorContains(t, err, path)

		ended, end := context.WithCancel(t.Context())
		end()
		answer, err := mounter.Presence(ended)
		assert.Equal(t, volume.Unknown, answer)
		assert.ErrorIs(t, err, volume.ErrUncertain)
	}
	assert.Equal(t, 1, countGoroutines("hostpath.stat"), "goroutines that hang after 20 tries")
	assert.NoError(t, setUp(t, plugin, t.TempDir(), v1.HostPathDirectory), "another path does not wait")

	waiting := make(chan error, 1)
	mounter := mounterOf(t, plugin, inline(path, v1.HostPathDirectoryOrCreate))
	go func() { waiting <- mounter.SetUp(t.Context(), volume.SetUpOptions{}) }()
	awaitGoroutine(t, "hostpath.(*stuck).wait")
	kill()
	require.ErrorIs(t, <-waiting, unix.ENOTCONN, "who waits asks once the server is gone for good")
	err := setUp(t, plugin, path, v1.HostPathDirectoryOrCreate)
	require.ErrorIs(t, err, unix.ENOTCONN)
	assert.NotErrorIs(t, err, volume.ErrUncertain)
	answer, err := mounterOf(t, plugin, inline(path, v1.HostPathDirectoryOrCreate)).Presence(t.Context())
	assert.Equal(t, volume.Unknown, answer)
	assert.ErrorIs(t, err, unix.ENOTCONN)
}

func TestAContextThatHasEndedIsUncertain(t *testing.T) {
	plugin, dir := start(t, hostpath.Options{}), t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := mounterOf(t, plugin, inline(dir, v1.HostPathDirectory)).SetUp(ctx, volume.SetUpOptions{})
	require.ErrorIs(t, err, volume.ErrUncertain)
	assert.NoError(t, setUp(t, plugin, dir, v1.HostPathDirectory), "it can be repeated")
}

// awaitGoroutine returns when a goroutine is in one of the functions.
func awaitGoroutine(t *testing.T, functions ...string) {
	t.Helper()
	for {
		for _, function := range functions {
			if countGoroutines(function) > 0 {
				return
			}
		}
		require.NoError(t, t.Context().Err())
		runtime.Gosched()
	}
}

func countGoroutines(function string) int {
	buf := make([]byte, 1<<20)
	count := 0
	for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, function+"(") {
			count++
		}
	}
	return count
}
