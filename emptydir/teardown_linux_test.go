// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
)

func (f *fixture) bind(source, target string) {
	f.Helper()
	require.NoError(f, unix.Mount(source, target, "", unix.MS_BIND, ""))
}

func (f *fixture) mountTmpfs(target string) {
	f.Helper()
	require.NoError(f, unix.Mount("theirs", target, "tmpfs", 0, "size=64k"))
}

func (f *fixture) unmount(target string) {
	f.Helper()
	require.NoError(f, unix.Unmount(target, unix.UMOUNT_NOFOLLOW))
}

func TestTearDownSucceedsThreeTimesAndAfterAManualUnmount(t *testing.T) {
	begin(t)
	for _, medium := range []v1.StorageMedium{"", "Memory", "HugePages"} {
		for name, options := range map[string]Options{"": {}, " with options": {NoExec: true}} {
			t.Run(string(medium)+name, func(t *testing.T) {
				f := newFixture(t, v1.EmptyDirVolumeSource{Medium: medium})
				f.restart(options)
				f.setUp()
				for range 3 {
					f.tearDown()
				}
				f.setUp()
				if len(mountsAt(t, f.path)) > 0 {
					f.unmount(f.path)
					f.wantPresence(volume.Absent)
				}
				f.write(f.path, "dropped")
				for range 3 {
					f.tearDown()
				}
			})
		}
	}
}

func TestTearDownByAPluginWithoutOptionsUnmountsWhatWasBoundWithThem(t *testing.T) {
	begin(t)
	f := newFixture(t, v1.EmptyDirVolumeSource{})
	f.restart(Options{NoDev: true})
	f.setUp()
	f.write(f.path, "file")
	f.restart(Options{})
	f.tearDown()
}

func TestTearDownLeavesForeignMountsInsideAloneAndIsFinishedOnceTheyAreGone(t *testing.T) {
	begin(t)
	for _, medium := range []v1.StorageMedium{"", "Memory"} {
		for name, options := range map[string]Options{"": {}, " with options": {NoSUID: true}} {
			t.Run(string(medium)+name, func(t *testing.T) {
				f := newFixture(t, v1.EmptyDirVolumeSource{Medium: medium})
				f.restart(options)
				f.setUp()
				outside := t.TempDir()
				theirs := f.write(outside, "theirs")
				bound, tmpfs := filepath.Join(f.path, "deep", "bound"), filepath.Join(f.path, "tmpfs")
				require.NoError(t, os.MkdirAll(bound, 0o755))
				require.NoError(t, os.Mkdir(tmpfs, 0o755))
				f.bind(outside, bound)
				f.mountTmpfs(tmpfs)
				f.write(tmpfs, "theirs")
				for range 2 {
					err := f.tryTearDown()
					require.ErrorIs(t, err, volume.ErrInUse)
					assert.ErrorContains(t, err, bound)
					assert.ErrorContains(t, err, tmpfs)
					assert.FileExists(t, filepath.Join(tmpfs, "theirs"))
					assert.FileExists(t, filepath.Join(bound, "theirs"))
				}
				f.unmount(bound)
				f.unmount(tmpfs)
				f.tearDown()
				assert.FileExists(t, theirs)
			})
		}
	}
}

func TestWhatElseIsMountedOnTheVolumeIsNamedAndLeft(t *testing.T) {
	begin(t)
	for _, medium := range []v1.StorageMedium{"", "Memory", "HugePages"} {
		for name, options := range map[string]Options{"": {}, " with options": {NoDev: true}} {
			t.Run(string(medium)+name, func(t *testing.T) {
				f := newFixture(t, v1.EmptyDirVolumeSource{Medium: medium})
				f.restart(options)
				f.makeVolumeDir()
				outside := t.TempDir()
				theirs := f.write(outside, "theirs")
				f.bind(outside, f.path)
				device := mountsAt(t, f.path)[0].FSType
				for _, do := range []func() error{f.trySetUp, f.tryTearDown, f.trySetUp} {
					err := do()
					require.ErrorIs(t, err, volume.ErrInUse)
					assert.ErrorContains(t, err, f.path)
					assert.ErrorContains(t, err, device)
					f.wantPresence(volume.Unknown)
				}
				f.unmount(f.path)
				f.setUp()
				f.tearDown()
				assert.FileExists(t, theirs)
			})
		}
	}
}

func TestAVolumeOfAnotherKindIsNotTakenForThisOne(t *testing.T) {
	begin(t)
	media := []v1.StorageMedium{"", "Memory", "HugePages"}
	for i, medium := range media {
		for j, other := range media {
			if i == j || medium != "" && other == "" {
				continue // a directory that is no mount is what a crash leaves of the other media
			}
			t.Run(string(other)+" instead of "+string(medium), func(t *testing.T) {
				f := newFixture(t, v1.EmptyDirVolumeSource{Medium: other})
				f.setUp()
				f.spec = newSpec(v1.EmptyDirVolumeSource{Medium: medium})
				require.ErrorIs(t, f.trySetUp(), volume.ErrInUse)
				f.wantPresence(volume.Unknown)
				f.tearDown()
				f.setUp()
				f.tearDown()
			})
		}
	}
}

func TestAHugetlbfsOfAnotherPageSizeIsNotTakenForTheVolume(t *testing.T) {
	begin(t)
	f := newFixture(t, v1.EmptyDirVolumeSource{Medium: "HugePages"})
	f.setUp()
	f.pod = newPod(asking("hugepages-1Gi"))
	err := f.trySetUp()
	require.ErrorIs(t, err, volume.ErrInUse)
	assert.ErrorContains(t, err, "pages of 2Mi instead of 1Gi")
	f.wantPresence(volume.Unknown)
	f.tearDown()
}

func TestTearDownUnmountsWhatIsStacked(t *testing.T) {
	begin(t)
	f := newFixture(t, v1.EmptyDirVolumeSource{Medium: "Memory"})
	f.setUp()
	f.mountTmpfs(f.path)
	f.mountTmpfs(f.path)
	f.bind(f.path, f.path)
	f.tearDown()
}

func TestTearDownStopsAtAForeignMountInTheStack(t *testing.T) {
	begin(t)
	f := newFixture(t, v1.EmptyDirVolumeSource{Medium: "Memory"})
	f.setUp()
	outside := t.TempDir()
	f.bind(outside, f.path)
	f.mountTmpfs(f.path)
	require.ErrorIs(t, f.tryTearDown(), volume.ErrInUse)
	require.Len(t, mountsAt(t, f.path), 2, "the tmpfs on top is gone, the bind mount and the volume are there")
	f.unmount(f.path)
	f.tearDown()
}

func TestTearDownOfAVolumeInUseSaysSo(t *testing.T) {
	begin(t)
	f := newFixture(t, v1.EmptyDirVolumeSource{Medium: "Memory"})
	f.setUp()
	file, err := os.Open(f.write(f.path, "file"))
	require.NoError(t, err)
	defer file.Close()
	err = f.tryTearDown()
	require.ErrorIs(t, err, volume.ErrInUse)
	require.ErrorIs(t, err, unix.EBUSY)
	assert.ErrorContains(t, err, f.path)
	assert.FileExists(t, filepath.Join(f.path, "file"))
	f.wantPresence(volume.Present)
	require.NoError(t, file.Close())
	f.tearDown()
}

func TestAFileSystemThatDoesNotAnswerOnTheVolumeIsNotWaitedFor(t *testing.T) {
	begin(t)
	for _, medium := range []v1.StorageMedium{"", "Memory"} {
		t.Run(string(medium), func(t *testing.T) {
			f := newFixture(t, v1.EmptyDirVolumeSource{Medium: medium})
			f.makeVolumeDir()
			kill := mountns.DeadFUSE(t, f.path)
			unmounter, err := f.plugin.NewUnmounter(f.spec.Name(), f.pod.UID)
			require.NoError(t, err)
			for _, do := range []func(context.Context) error{
				func(ctx context.Context) error { return unmounter.TearDown(ctx, volume.TearDownOptions{}) },
				func(ctx context.Context) error { return f.mounter().SetUp(ctx, volume.SetUpOptions{}) },
				func(ctx context.Context) error {
					presence, err := f.mounter().Presence(ctx)
					assert.Equal(t, volume.Unknown, presence)
					return err
				},
			} {
				ctx, end := context.WithTimeout(t.Context(), 20*time.Millisecond)
				err := do(ctx)
				end()
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorContains(t, err, f.path)
			}
			kill()
			err = f.tryTearDown()
			require.ErrorIs(t, err, volume.ErrInUse)
			assert.ErrorContains(t, err, "dead (fuse)")
			// Those that wait for an answer may not have noticed yet that there will be none.
			require.NoError(t, unix.Unmount(f.path, unix.MNT_DETACH))
			f.tearDown()
		})
	}
}

func TestTearDownRemovesASymlinkAndNotWhatItLeadsTo(t *testing.T) {
	begin(t)
	f := newFixture(t, v1.EmptyDirVolumeSource{Medium: "Memory"})
	f.makeVolumeDir()
	outside := t.TempDir()
	f.mountTmpfs(outside)
	defer f.unmount(outside)
	theirs := f.write(outside, "theirs")
	for _, target := range []string{outside, filepath.Join(outside, "absent")} {
		require.NoError(t, os.RemoveAll(f.path))
		require.NoError(t, os.Symlink(target, f.path))
		require.Error(t, f.trySetUp())
		presence, _ := f.mounter().Presence(t.Context())
		assert.NotEqual(t, volume.Present, presence)
		f.tearDown()
		assert.FileExists(t, theirs)
	}
}
