// SPDX-License-Identifier: Apache-2.0

package mounter

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/internal/unmounting"
)

// unmounters are the methods that unmount.
var unmounters = map[string]func(*Mounter, string) error{
	"Unmount": (*Mounter).Unmount,
	"UnmountWithForce": func(m *Mounter, target string) error {
		return m.UnmountWithForce(target, time.Minute)
	},
	"UnmountInSteps": func(m *Mounter, target string) error {
		step, err := m.UnmountInSteps(context.Background(), target)
		if step != unmounting.Plain {
			return fmt.Errorf("unmounted %s", step)
		}
		return err
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

func assertNotMounted(t *testing.T, dir string) {
	t.Helper()
	mounted, err := isMountPoint(dir)
	require.NoError(t, err)
	assert.False(t, mounted)
}
