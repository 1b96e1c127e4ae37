// SPDX-License-Identifier: Apache-2.0

package mounter

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mountns"
)

// unmounters are the two methods.
var unmounters = map[string]func(*Mounter, string) error{
	"Unmount": (*Mounter).Unmount,
	"UnmountWithForce": func(m *Mounter, target string) error {
		return m.UnmountWithForce(target, time.Minute)
	},
}

func TestUnmountTakesAwayTheUppermostMount(t *testing.T) {
	for name, unmount := range unmounters {
		t.Run(name, func(t *testing.T) {
			m := begin(t)
			dir := mountTmpfs(t, m)
			require.NoError(t, m.Mount("above", dir, "tmpfs", nil))
			require.NoError(t, unmount(m, dir))
			assert.Equal(t, "tmpfs", infoOf(t, dir).Source)
		})
	}
}

func TestUnmountErrors(t *testing.T) {
	for name, unmount := range unmounters {
		t.Run(name, func(t *testing.T) {
			m := begin(t)
			dir := t.TempDir()
			mounted := mountTmpfs(t, m)
			link := filepath.Join(dir, "link")
			require.NoError(t, os.Symlink(mounted, link))
			file, err := os.Create(filepath.Join(mounted, "open"))
			require.NoError(t, err)
			defer file.Close()

			err = unmount(m, dir)
			assert.ErrorIs(t, err, unix.EINVAL)
			assert.EqualError(t, err, "unmount "+dir+": invalid argument: not a mount point")
			assert.False(t, m.CanSafelySkipMountPointCheck(), "true would promise no such error")

			assert.ErrorIs(t, unmount(m, link), unix.EINVAL, "a link is not followed")
			assert.ErrorIs(t, unmount(m, filepath.Join(dir, "absent")), fs.ErrNotExist)

			err = unmount(m, mounted)
			assert.ErrorIs(t, err, unix.EBUSY)
			assert.ErrorContains(t, err, "in use")
		})
	}
}

func TestUnmountDoesNotNeedTheServer(t *testing.T) {
	for name, unmount := range unmounters {
		t.Run(name, func(t *testing.T) {
			m := begin(t)
			dir := t.TempDir()
			mountns.DeadFUSE(t, dir)
			require.NoError(t, unmount(m, dir))
			assertNotMounted(t, dir)
		})
	}
}

func TestUnmountWithForceFreesThoseWhoWaitForADeadServer(t *testing.T) {
	m := begin(t)
	dir := t.TempDir()
	mountns.DeadFUSE(t, dir)
	file, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0) // makes it busy
	require.NoError(t, err)
	answer := make(chan error, 1)
	go func() {
		var stat unix.Stat_t
		answer <- unix.Fstatat(file, "name", &stat, 0)
	}()
	// Not 0: the attempt without force has to find out that the server does not answer.
	require.NoError(t, m.UnmountWithForce(dir, 50*time.Millisecond))
	assertNotMounted(t, dir)
	assert.Error(t, <-answer)
	require.NoError(t, unix.Close(file))
}

func TestUnmountWithForceTakesAwayWhatIsInUseWhenTheServerIsGone(t *testing.T) {
	m := begin(t)
	dir := t.TempDir()
	kill := mountns.DeadFUSE(t, dir)
	kill()
	file, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	require.ErrorIs(t, m.Unmount(dir), unix.EBUSY)
	require.NoError(t, m.UnmountWithForce(dir, time.Minute))
	assertNotMounted(t, dir)
	require.NoError(t, unix.Close(file))
}

func TestUnmountWithForceWithoutTimeUsesForceAtOnce(t *testing.T) {
	m := begin(t)
	dir := t.TempDir()
	require.NoError(t, m.Mount("", dir, "tmpfs", nil))
	require.NoError(t, m.UnmountWithForce(dir, 0))
	assertNotMounted(t, dir)
}

func TestAnAttemptThatHangsIsGivenUp(t *testing.T) {
	release := make(chan struct{})
	hanging := start(func() error {
		<-release
		return unix.EBUSY
	})
	assert.ErrorIs(t, hanging.wait(time.Millisecond), context.DeadlineExceeded)
	close(release)
	assert.Equal(t, unix.EBUSY, hanging.wait(time.Minute), "and can be waited for again")
}

func assertNotMounted(t *testing.T, dir string) {
	t.Helper()
	mounted, err := isMountPoint(dir)
	require.NoError(t, err)
	assert.False(t, mounted)
}
