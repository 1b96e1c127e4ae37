// SPDX-License-Identifier: Apache-2.0

package hardlimit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/loopdev"
	"github.com/volumekit/volumekit/internal/mountns"
)

// fixture is a directory that is to have a limit.
type fixture struct {
	*testing.T
	dir      string
	options  Options
	prepared int
}

// mode is what the fixture gives a new root directory.
const mode = 0o2775

func newFixture(t *testing.T, bytes uint64) *fixture {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	f := &fixture{T: t, dir: filepath.Join(t.TempDir(), "volume")}
	f.options = Options{Bytes: bytes, Only: Image, Prepare: f.prepare}
	require.NoError(t, os.Mkdir(f.dir, 0o750))
	t.Cleanup(func() {
		// Also after a failure: a loop device belongs to the whole machine.
		for unix.Unmount(f.dir, unix.MNT_DETACH) == nil {
		}
		for _, device := range f.devices() {
			assert.NoError(t, loopdev.Detach(context.WithoutCancel(t.Context()), device))
		}
	})
	return f
}

func (f *fixture) prepare(root *os.File) error {
	f.prepared++
	return root.Chmod(os.ModeSetgid | mode&0o777)
}

func (f *fixture) apply() Kind {
	f.Helper()
	kind, err := Apply(f.Context(), f.dir, f.options)
	require.NoError(f, err)
	return kind
}

func (f *fixture) find() Limit {
	f.Helper()
	found, err := Find(f.Context(), f.dir, f.options.Image)
	require.NoError(f, err)
	return found
}

func (f *fixture) image() string { return f.options.complete(f.dir).Image }

// devices are those that have the image, complete or not.
func (f *fixture) devices() []loopdev.Device {
	var all []loopdev.Device
	for _, path := range []string{f.image(), newPath(f.image())} {
		id, err := loopdev.FileIDOf(path)
		if err != nil {
			continue
		}
		found, err := loopdev.Find(context.WithoutCancel(f.Context()), id)
		require.NoError(f, err)
		all = append(all, found...)
	}
	return all
}

// remove takes the limit away, and finds nothing left of it.
func (f *fixture) remove() {
	f.Helper()
	require.NoError(f, Remove(f.Context(), f.dir, f.options))
	f.wantNothing()
}

func (f *fixture) wantNothing() {
	f.Helper()
	assert.Equal(f, Limit{}, f.find())
	assert.Empty(f, f.devices())
	for _, dir := range []string{filepath.Dir(f.dir), filepath.Dir(f.image())} {
		entries, err := os.ReadDir(dir)
		require.NoError(f, err)
		for _, entry := range entries {
			assert.Equal(f, filepath.Base(f.dir), entry.Name(), "in %s", dir)
		}
	}
}

func (f *fixture) write(name, content string) {
	f.Helper()
	require.NoError(f, os.WriteFile(filepath.Join(f.dir, name), []byte(content), 0o644))
}

func (f *fixture) wantContent(name, want string) {
	f.Helper()
	content, err := os.ReadFile(filepath.Join(f.dir, name))
	require.NoError(f, err)
	assert.Equal(f, want, string(content))
}

// full writes a file until there is no room, and returns how much that was.
func full(path string) (written uint64, err error) {
	file, err := os.Create(path)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	chunk := make([]byte, 64<<10)
	for i := range chunk {
		chunk[i] = byte(i)
	}
	for err == nil {
		var n int
		n, err = file.Write(chunk)
		written += uint64(n)
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		err = nil
	}
	return written, errors.Join(err, file.Close())
}
