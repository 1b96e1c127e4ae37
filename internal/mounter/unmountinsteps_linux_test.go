// SPDX-License-Identifier: Apache-2.0

package mounter

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/internal/unmounting"
)

// within is a context that ends soon, with time for each step to find out that the server does not answer.
func within(t *testing.T, timeout time.Duration) context.Context {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(end)
	return ctx
}

// keepBusy opens dir without asking the server, which keeps it from being unmounted.
func keepBusy(t *testing.T, dir string) (file int) {
	t.Helper()
	file, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Close(file)) })
	return file
}

func TestForceFreesThoseWhoWaitForADeadServer(t *testing.T) {
	m := begin(t)
	dir := t.TempDir()
	mountns.DeadFUSE(t, dir)
	file := keepBusy(t, dir)
	answer := make(chan error, 1)
	go func() {
		var stat unix.Stat_t
		answer <- unix.Fstatat(file, "name", &stat, 0)
	}()
	step, err := m.UnmountInSteps(within(t, 150*time.Millisecond), dir)
	require.NoError(t, err)
	assert.NotEqual(t, unmounting.Plain, step)
	assertNotMounted(t, dir)
	assert.Error(t, <-answer)
}

func TestUnmountWithForceUsesTheSameSteps(t *testing.T) {
	m := begin(t)
	dir := t.TempDir()
	mountns.DeadFUSE(t, dir)
	keepBusy(t, dir)
	// Not 0: the attempt without force has to find out that the server does not answer.
	require.NoError(t, m.UnmountWithForce(dir, 50*time.Millisecond))
	assertNotMounted(t, dir)
}

func TestWhatIsInUseIsUnmountedLazilyWhenTheServerIsGone(t *testing.T) {
	m := begin(t)
	dir := t.TempDir()
	kill := mountns.DeadFUSE(t, dir)
	kill()
	keepBusy(t, dir)
	require.ErrorIs(t, m.Unmount(dir), unix.EBUSY)
	step, err := m.UnmountInSteps(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, unmounting.Lazy, step)
	assertNotMounted(t, dir)
}

func TestWhatIsInUseIsLeftAloneWhenTheServerAnswers(t *testing.T) {
	m := begin(t)
	dir := mountTmpfs(t, m)
	file, err := os.Create(dir + "/open")
	require.NoError(t, err)
	step, err := m.UnmountInSteps(within(t, time.Minute), dir)
	require.ErrorIs(t, err, unix.EBUSY)
	assert.Equal(t, unmounting.Plain, step)
	require.NoError(t, file.Close())
}

func TestUnmountWithForceWithoutTimeUsesForceAtOnce(t *testing.T) {
	m := begin(t)
	dir := t.TempDir()
	require.NoError(t, m.Mount("", dir, "tmpfs", nil))
	require.NoError(t, m.UnmountWithForce(dir, 0))
	assertNotMounted(t, dir)
}

func TestAfterTheEndOfTheContextNothingIsUnmounted(t *testing.T) {
	m := begin(t)
	dir := mountTmpfs(t, m)
	why := errors.New("why")
	ctx, end := context.WithCancelCause(t.Context())
	end(why)
	_, err := m.UnmountInSteps(ctx, dir)
	require.ErrorIs(t, err, why)
	assert.ErrorContains(t, err, dir)
	mounted, err := isMountPoint(dir)
	require.NoError(t, err)
	assert.True(t, mounted)
}

// TestRetryingWhatHangsAddsNothing has a plain attempt hang: it asks a server that does not answer. The steps that would end
// it are not reached, as each context ends before.
func TestRetryingWhatHangsAddsNothing(t *testing.T) {
	m := begin(t)
	dir := t.TempDir()
	kill := mountns.DeadFUSE(t, dir)
	keepBusy(t, dir)
	started := 0
	for range 5 {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("why")
		_, err := m.unmountInSteps(ctx, dir, func(unmounting.Step) time.Duration {
			time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
			return time.Minute
		})
		require.ErrorIs(t, err, why)
		require.ErrorContains(t, err, dir)
		key := unmounting.Key{Target: dir, Mount: mountOn(dir), Step: unmounting.Plain}
		m.attempts.Start(key, func() error { started++; return nil })
	}
	assert.Zero(t, started, "each later attempt has to join the first")
	kill()
	step, err := m.UnmountInSteps(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, unmounting.Lazy, step)
	assertNotMounted(t, dir)
}

func TestAMountBelowOneThatIsOnItsWayOutIsLeftAlone(t *testing.T) {
	m := begin(t)
	dir := mountTmpfs(t, m)
	release := make(chan struct{})
	above := unmounting.Key{Target: dir, Mount: mountOn(dir) + 1}
	hanging := m.attempts.Start(above, func() error { <-release; return nil })
	m.attempts.Abandon(hanging)

	step, err := m.UnmountInSteps(within(t, 30*time.Millisecond), dir)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "finish the unmount of "+dir)
	assert.Equal(t, unmounting.Plain, step)

	close(release)
	<-hanging.Done()
	assert.Equal(t, above.Mount-1, mountOn(dir))
}

// TestAStepStopsWhenTheMountHasGone has the plain attempt take away the upper of two mounts and then hang.
func TestAStepStopsWhenTheMountHasGone(t *testing.T) {
	m := begin(t)
	dir := mountTmpfs(t, m)
	below := mountOn(dir)
	require.NoError(t, m.Mount("above", dir, "tmpfs", nil))
	joined, away, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	hanging := m.attempts.Start(unmounting.Key{Target: dir, Mount: mountOn(dir)}, func() error {
		<-joined
		err := m.Unmount(dir)
		close(away)
		<-release
		return err
	})
	step, err := m.unmountInSteps(t.Context(), dir, func(step unmounting.Step) time.Duration {
		if step == unmounting.Plain {
			close(joined)
			<-away
			return time.Millisecond
		}
		close(release)
		return time.Minute
	})
	<-hanging.Done()
	require.NoError(t, err)
	assert.Equal(t, unmounting.Plain, step)
	assert.Equal(t, below, mountOn(dir), "the mount below")
}
