// SPDX-License-Identifier: Apache-2.0

//go:build vm

package hardlimit

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/internal/projectquota"
)

// each runs a test on each file system with project quotas: the virtual machine of e2e/quota has disks for them.
func each(t *testing.T, test func(f *fixture)) {
	mountns.RequirePrivate(t)
	for fsType, makeIt := range map[string][]string{
		"ext4": {"mkfs.ext4", "-q", "-O", "quota,project", "-E", "quotatype=prjquota"},
		"xfs":  {"mkfs.xfs", "-q", "-f"},
	} {
		t.Run(fsType, func(t *testing.T) {
			disk := "/dev/disk/" + fsType
			out, err := exec.Command(makeIt[0], append(makeIt[1:], disk)...).CombinedOutput()
			require.NoError(t, err, string(out))
			root, err := os.MkdirTemp("/mnt", "") // where others get to
			require.NoError(t, err)
			require.NoError(t, unix.Mount(disk, root, fsType, 0, "prjquota"))
			t.Cleanup(func() {
				assert.NoError(t, unix.Unmount(root, 0))
				assert.NoError(t, os.Remove(root))
			})
			f := &fixture{T: t, dir: filepath.Join(root, "above", "volume"), options: Options{Bytes: 4 << 20}}
			require.NoError(t, os.MkdirAll(f.dir, 0o755))
			require.NoError(t, os.Chmod(f.dir, 0o777))
			test(f)
		})
	}
}

// fill writes as a user without capabilities until there is no room.
func (f *fixture) fill(name string) (written uint64) {
	f.Helper()
	type result struct {
		written uint64
		err     error
	}
	results := make(chan result)
	go func() {
		runtime.LockOSThread() // and never unlocked, so that the thread ends
		const nobody = 65534
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			results <- result{0, errno}
			return
		}
		written, err := full(filepath.Join(f.dir, name))
		results <- result{written, err}
	}()
	r := <-results
	require.NoError(f, r.err)
	return r.written
}

func TestAProjectQuotaIsUsedWhereThereIsOne(t *testing.T) {
	each(t, func(f *fixture) {
		require.Equal(f, Limit{}, f.find())
		require.Equal(f, Project, f.apply())
		require.Equal(f, Limit{Kind: Project, Complete: true}, f.find())
		assert.True(f, f.find().Enforced())
		require.Equal(f, Project, f.apply())
		written := f.fill("file")
		f.Logf("%d bytes of %d were written", written, f.options.Bytes)
		assert.InDelta(f, f.options.Bytes, written, 128<<10)
		usage, err := UsageOf(f.Context(), f.dir, "")
		require.NoError(f, err)
		assert.Equal(f, Project, usage.Kind)
		assert.EqualValues(f, f.options.Bytes, usage.Limit)
		assert.EqualValues(f, 2, usage.Inodes)
		assert.InDelta(f, written, usage.Bytes, 64<<10)

		f.options.Bytes = 8 << 20
		require.NoError(f, Grow(f.Context(), f.dir, f.options))
		assert.InDelta(f, 4<<20, f.fill("more"), 128<<10)
		f.options.Bytes = 1 << 20
		require.NoError(f, Grow(f.Context(), f.dir, f.options))
		usage, err = UsageOf(f.Context(), f.dir, "")
		require.NoError(f, err)
		assert.EqualValues(f, 8<<20, usage.Limit, "it grows only")

		f.remove()
		f.remove()
		assert.FileExists(f, filepath.Join(f.dir, "file"))
		id, err := projectquota.ID(f.dir)
		require.NoError(f, err)
		assert.Zero(f, id)
		require.Equal(f, Project, f.apply(), "the files that are there count again")
		assert.Zero(f, f.fill("third"))
		f.remove()
	})
}

func TestAProjectThatIsHalfMadeIsFinishedOrRemoved(t *testing.T) {
	each(t, func(f *fixture) {
		half := func() uint32 {
			id, err := projectquota.FreeID(f.dir)
			require.NoError(f, err)
			require.NoError(f, projectquota.Set(f.dir, id, 0, 0))
			require.Equal(f, Limit{Kind: Project}, f.find())
			assert.False(f, f.find().Enforced())
			return id
		}
		id := half()
		require.Equal(f, Project, f.apply())
		now, err := projectquota.ID(f.dir)
		require.NoError(f, err)
		assert.Equal(f, id, now)
		assert.InDelta(f, f.options.Bytes, f.fill("file"), 128<<10)
		require.NoError(f, os.Remove(filepath.Join(f.dir, "file")))
		f.removeAll()

		require.NoError(f, os.Mkdir(f.dir, 0o777))
		half()
		f.removeAll()
	})
}

// removeAll takes away the limit and then the directory.
func (f *fixture) removeAll() {
	f.Helper()
	require.NoError(f, Remove(f.Context(), f.dir, f.options))
	require.NoError(f, os.RemoveAll(f.dir))
	f.wantNothing()
}

func TestInsideAnotherProjectThereIsAnImage(t *testing.T) {
	each(t, func(f *fixture) {
		above := filepath.Dir(f.dir)
		require.NoError(f, os.Remove(f.dir))
		_, err := Apply(f.Context(), above, Options{Bytes: 100 << 20})
		require.NoError(f, err)
		require.NoError(f, os.Mkdir(f.dir, 0o777))
		require.Equal(f, Limit{}, f.find(), "the project of the directory above is not its own")

		f.options.Only = Project
		_, err = Apply(f.Context(), f.dir, f.options)
		require.ErrorIs(f, err, errors.ErrUnsupported)
		f.options.Only = None
		require.Equal(f, Image, f.apply())
		f.remove()
		found, err := Find(f.Context(), above, "")
		require.NoError(f, err)
		assert.True(f, found.Enforced(), "the other limit stays")
		require.NoError(f, Remove(f.Context(), above, Options{}))
	})
}

func TestAnImageCanBeHadWhereThereAreProjectQuotas(t *testing.T) {
	each(t, func(f *fixture) {
		f.options.Only = Image
		require.Equal(f, Image, f.apply())
		f.options.Only = None
		require.Equal(f, Image, f.apply())
		f.remove()
	})
}
