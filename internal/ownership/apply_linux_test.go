// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/internal/removal"
	"golang.org/x/sys/unix"
)

func TestEverythingIsGivenToTheGroup(t *testing.T) {
	for _, options := range []Options{{Group: testGroup}, {Group: testGroup, ReadOnly: true}, {Group: math.MaxUint32 - 1}, {}} {
		t.Run(fmt.Sprintf("%+v", options), func(t *testing.T) {
			volume := filepath.Join(quickDir(t), "volume")
			colourful(t, volume)
			before := states(t, volume)
			want := wanted(before, options)
			different := int64(0)
			for path := range want {
				if want[path] != before[path] {
					different++
				}
			}
			result, err := Apply(t.Context(), volume, options)
			require.NoError(t, err)
			assert.Equal(t, want, states(t, volume))
			assert.Equal(t, int64(len(want)), result.Seen)
			assert.LessOrEqual(t, result.Changed, different)
			assert.GreaterOrEqual(t, result.Changed, different-1, "a file of two names may count once")

			again, err := Apply(t.Context(), volume, options)
			require.NoError(t, err)
			assert.Equal(t, Result{Seen: result.Seen}, again)
			assert.Equal(t, want, states(t, volume))
		})
	}
}

func TestWhatIsNoDirectoryIsChangedAlone(t *testing.T) {
	dir := quickDir(t)
	for name, make := range map[string]func(path string){
		"file": func(path string) { write(t, path, 0o640|fs.ModeSetuid) },
		"fifo": func(path string) { require.NoError(t, unix.Mkfifo(path, 0o600)) },
		"link": func(path string) {
			write(t, filepath.Join(dir, "target", "file"), 0o600)
			require.NoError(t, os.Symlink("target", path))
		},
	} {
		path := filepath.Join(dir, name)
		make(path)
		want := wanted(states(t, path), Options{Group: testGroup})
		result, err := Apply(t.Context(), path, Options{Group: testGroup, OnRootMismatch: true})
		require.NoError(t, err, name)
		assert.Equal(t, Result{Seen: 1, Changed: 1}, result, name)
		assert.Equal(t, want, states(t, path), name)
	}
	assert.Zero(t, stateOf(t, filepath.Join(dir, "target", "file")).group)
	assert.Zero(t, stateOf(t, filepath.Join(dir, "target")).group)
}

func TestOnRootMismatchLooksAtTheRootAlone(t *testing.T) {
	for name, test := range map[string]struct {
		group   int
		mode    os.FileMode
		reading bool
		skipped bool
	}{
		"it is as it is made":              {testGroup, 0o770 | fs.ModeSetgid, false, true},
		"it has more permissions":          {testGroup, 0o777 | fs.ModeSetgid | fs.ModeSticky, false, true},
		"it has no setgid bit":             {testGroup, 0o770, false, false},
		"it belongs to another group":      {testGroup + 1, 0o770 | fs.ModeSetgid, false, false},
		"the group may not write":          {testGroup, 0o750 | fs.ModeSetgid, false, false},
		"the owner may not read":           {testGroup, 0o370 | fs.ModeSetgid, false, false},
		"the group may not search":         {testGroup, 0o760 | fs.ModeSetgid, false, false},
		"the group is to read and may":     {testGroup, 0o550 | fs.ModeSetgid, true, true},
		"the group is to read and may not": {testGroup, 0o710 | fs.ModeSetgid, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			volume := filepath.Join(quickDir(t), "volume")
			write(t, filepath.Join(volume, "file"), 0o600)
			require.NoError(t, os.Chown(volume, -1, test.group))
			require.NoError(t, os.Chmod(volume, test.mode))
			before := states(t, volume)
			options := Options{Group: testGroup, OnRootMismatch: true, ReadOnly: test.reading}
			result, err := Apply(t.Context(), volume, options)
			require.NoError(t, err)
			assert.Equal(t, test.skipped, result.Skipped)
			if test.skipped {
				assert.Equal(t, int64(1), result.Seen)
				assert.Equal(t, before, states(t, volume))
				return
			}
			assert.Equal(t, Result{Seen: 2, Changed: 2}, result)
			assert.Equal(t, wanted(before, options), states(t, volume))
		})
	}
}

func TestARootThatLosesItsSetgidBitIsWalkedOnce(t *testing.T) {
	volume := filepath.Join(quickDir(t), "volume")
	colourful(t, volume)
	options := Options{Group: testGroup, OnRootMismatch: true}
	first, err := Apply(t.Context(), volume, options)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(volume, 0o770))
	second, err := Apply(t.Context(), volume, options)
	require.NoError(t, err)
	assert.Equal(t, Result{Seen: first.Seen, Changed: 1}, second)
	third, err := Apply(t.Context(), volume, options)
	require.NoError(t, err)
	assert.Equal(t, Result{Seen: 1, Skipped: true}, third)
}

func TestWhatIsMountedInsideIsNotTouched(t *testing.T) {
	for name, foreign := range map[string]func(t *testing.T, on string) (kept string){
		"a bind mount of the same file system": func(t *testing.T, on string) string {
			source := filepath.Join(filepath.Dir(filepath.Dir(on)), "source")
			write(t, filepath.Join(source, "file"), 0o600)
			require.NoError(t, os.Mkdir(on, 0o755))
			mount(t, source, on, "", unix.MS_BIND, "")
			return source
		},
		"a tmpfs": func(t *testing.T, on string) string {
			require.NoError(t, os.Mkdir(on, 0o755))
			mount(t, "tmpfs", on, "tmpfs", 0, "")
			write(t, filepath.Join(on, "sub", "file"), 0o600)
			return on
		},
		"a bind mount of a file": func(t *testing.T, on string) string {
			source := filepath.Join(filepath.Dir(filepath.Dir(on)), "source")
			write(t, source, 0o600)
			write(t, on, 0o600)
			mount(t, source, on, "", unix.MS_BIND, "")
			return source
		},
		"a file system whose server is gone": func(t *testing.T, on string) string {
			require.NoError(t, os.Mkdir(on, 0o755))
			mountns.DeadFUSE(t, on)
			return ""
		},
	} {
		t.Run(name, func(t *testing.T) {
			volume := filepath.Join(quickDir(t), "volume")
			write(t, filepath.Join(volume, "file"), 0o600)
			want := wanted(states(t, volume), Options{Group: testGroup})
			kept := foreign(t, filepath.Join(volume, "mounted"))
			var before map[string]state
			if kept != "" {
				before = states(t, kept)
			}
			result, err := Apply(t.Context(), volume, Options{Group: testGroup})
			require.NoError(t, err)
			assert.Equal(t, Result{Seen: 2, Changed: 2}, result)
			for path, s := range want {
				assert.Equal(t, s, stateOf(t, volume+path))
			}
			if kept != "" {
				assert.Equal(t, before, states(t, kept))
			}
		})
	}
}

func TestAVolumeThatIsAMountPointIsChanged(t *testing.T) {
	volume := quickDir(t)
	colourful(t, volume)
	want := wanted(states(t, volume), Options{Group: testGroup})
	_, err := Apply(t.Context(), volume, Options{Group: testGroup})
	require.NoError(t, err)
	assert.Equal(t, want, states(t, volume))
}

func TestAnAbsentVolumeIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "absent")
	_, err := Apply(t.Context(), path, Options{Group: testGroup})
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.ErrorContains(t, err, path)
}

func TestAGroupThatIsNoneIsRefused(t *testing.T) {
	volume := t.TempDir()
	for _, group := range []int64{-1, math.MaxUint32, math.MaxUint32 + 1, math.MaxInt64, math.MinInt64} {
		before := states(t, volume)
		_, err := Apply(t.Context(), volume, Options{Group: group})
		assert.ErrorContains(t, err, fmt.Sprint(group))
		assert.Equal(t, before, states(t, volume))
	}
}

func TestTheFirstFailureEndsTheWalkAndNamesTheFile(t *testing.T) {
	mountns.AsOrdinaryUser(t, func(t *testing.T) {
		volume := filepath.Join(os.TempDir(), "volume")
		if _, err := os.Stat(volume); err != nil {
			t.Skip("needs root, who makes files of another user")
		}
		before := states(t, volume)
		_, err := Apply(t.Context(), volume, Options{Group: mountns.OrdinaryUser})
		require.ErrorIs(t, err, unix.EPERM)
		assert.ErrorContains(t, err, filepath.Join(volume, "theirs"))
		assert.Equal(t, before[""], stateOf(t, volume), "the root")
	}, func(t *testing.T, dir string) {
		volume := filepath.Join(dir, "volume")
		write(t, filepath.Join(volume, "theirs"), 0o600)
		require.NoError(t, os.Chmod(volume, 0o755))
		require.NoError(t, os.Chown(volume, mountns.OrdinaryUser, mountns.OrdinaryUser))
	})
}

func TestAReadOnlyFileSystemIsAnErrorUnlessAllIsRight(t *testing.T) {
	volume := quickDir(t)
	write(t, filepath.Join(volume, "a", "file"), 0o600)
	remount := func(flags uintptr) { require.NoError(t, unix.Mount("", volume, "", unix.MS_REMOUNT|flags, "")) }
	remount(unix.MS_RDONLY)
	before := states(t, volume)
	_, err := Apply(t.Context(), volume, Options{Group: testGroup})
	require.ErrorIs(t, err, unix.EROFS)
	assert.ErrorContains(t, err, filepath.Join(volume, "a"))
	assert.Equal(t, before, states(t, volume))
	remount(0)
	_, err = Apply(t.Context(), volume, Options{Group: testGroup})
	require.NoError(t, err)
	remount(unix.MS_RDONLY)
	_, err = Apply(t.Context(), volume, Options{Group: testGroup})
	assert.NoError(t, err)
}

func TestDeepTreesNeedFewDescriptors(t *testing.T) {
	dir := quickDir(t)
	volume := filepath.Join(dir, "volume")
	require.NoError(t, os.Mkdir(volume, 0o755))
	fd, err := unix.Open(volume, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	const depth = 3000
	for range depth {
		require.NoError(t, unix.Mkdirat(fd, "directory", 0o755))
		require.NoError(t, unix.Mkdirat(fd, "other", 0o755))
		require.NoError(t, unix.Mknodat(fd, "file", unix.S_IFREG|0o666, 0))
		next, err := unix.Openat(fd, "directory", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		unix.Close(fd)
		fd = next
	}
	defer unix.Close(fd)
	t.Cleanup(func() { require.NoError(t, removal.All(context.Background(), volume)) })
	descriptors := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		assert.NoError(t, err)
		return len(entries)
	}
	var most atomic.Int64
	before := descriptors()
	ctx := &hooked{Context: t.Context(), hook: func(n int) {
		if n%50 == 0 {
			most.Store(max(most.Load(), int64(descriptors()-before)))
		}
	}}
	result, err := Apply(ctx, volume, Options{Group: testGroup})
	require.NoError(t, err)
	assert.Equal(t, Result{Seen: 3*depth + 1, Changed: 3*depth + 1}, result)
	assert.LessOrEqual(t, most.Load(), int64(35*runtime.GOMAXPROCS(0)))
	assert.Equal(t, before, descriptors())
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(fd, &st))
	assert.Equal(t, state{0, testGroup, unix.S_IFDIR | 0o2775}, state{st.Uid, st.Gid, st.Mode}, "the deepest")
	again, err := Apply(t.Context(), volume, Options{Group: testGroup})
	require.NoError(t, err)
	assert.Equal(t, Result{Seen: 3*depth + 1}, again)
}

func TestNothingIsChangedAfterTheEndOfTheContext(t *testing.T) {
	volume := filepath.Join(quickDir(t), "volume")
	wide(t, volume, 20, 10_000)
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	var seen atomic.Int64
	const at = 100_000
	hook := &hooked{Context: ctx, hook: func(n int) {
		if n == at {
			cancel(why)
		}
		if ctx.Err() != nil {
			seen.Add(1)
		}
	}}
	result, err := Apply(hook, volume, Options{Group: testGroup})
	require.ErrorIs(t, err, why)
	assert.LessOrEqual(t, result.Seen, int64(at))
	assert.LessOrEqual(t, seen.Load(), int64(20*runtime.GOMAXPROCS(0)), "steps after the end")
	changed := func() (n int64) {
		for _, s := range states(t, volume) {
			if s.group == testGroup {
				n++
			}
		}
		return n
	}
	assert.Equal(t, result.Changed, changed(), "all of what was changed is known, and was before Apply returned")
	assert.Greater(t, result.Changed, int64(at/4))
	assert.Zero(t, stateOf(t, volume).group)
	again, err := Apply(t.Context(), volume, Options{Group: testGroup, OnRootMismatch: true})
	require.NoError(t, err)
	assert.Equal(t, Result{Seen: 200_021, Changed: 200_021 - result.Changed}, again)
}

func TestAContextThatHasEndedChangesNothing(t *testing.T) {
	volume := t.TempDir()
	before := states(t, volume)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Apply(ctx, volume, Options{Group: testGroup})
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, before, states(t, volume))
}

func TestAServerThatIsGoneDelaysNobody(t *testing.T) {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	volume := t.TempDir()
	kill := mountns.DeadFUSE(t, volume)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() {
		_, err := Apply(ctx, volume, Options{Group: testGroup})
		result <- err
	}()
	cancel()
	assert.ErrorIs(t, <-result, context.Canceled) // a hang here is the failure
	kill()
}

func TestProgressIsReportedWhileItGoesOn(t *testing.T) {
	volume := filepath.Join(quickDir(t), "volume")
	wide(t, volume, 10, 10)
	reported := make(chan struct{})
	hook := &hooked{Context: t.Context(), hook: func(n int) {
		if n > 60 {
			<-reported // the walk waits for the second report
		}
	}}
	calls, last, returned := 0, Progress{}, false
	result, err := Apply(hook, volume, Options{Group: testGroup, ProgressPeriod: time.Microsecond, Progress: func(p Progress) {
		calls++ // by one goroutine at a time, which the race detector checks
		assert.False(t, returned)
		assert.GreaterOrEqual(t, p.Seen, last.Seen)
		assert.GreaterOrEqual(t, p.Changed, last.Changed)
		last = p
		if calls == 2 {
			close(reported)
		}
	}})
	returned = true
	require.NoError(t, err)
	assert.GreaterOrEqual(t, calls, 2)
	assert.LessOrEqual(t, last.Seen, result.Seen)
	assert.Equal(t, Result{Seen: 111, Changed: 111}, result)
}

func TestWhatVanishesIsNoError(t *testing.T) {
	parent := quickDir(t)
	for _, vanishing := range []string{"a", "a/b", "a/" + strings.Repeat("d/", 35), "file"} {
		reached := 0
		for at := 2; ; at++ {
			dir, err := os.MkdirTemp(parent, "")
			require.NoError(t, err)
			write(t, filepath.Join(dir, "a", strings.Repeat("d/", 40), "file"), 0o600)
			write(t, filepath.Join(dir, "a", "b", "file"), 0o600)
			write(t, filepath.Join(dir, "file"), 0o600)
			var was atomic.Bool
			ctx := &hooked{Context: t.Context(), hook: func(n int) {
				if n == at {
					was.Store(true)
					assert.NoError(t, os.RemoveAll(filepath.Join(dir, vanishing)))
				}
			}}
			_, err = Apply(ctx, dir, Options{Group: testGroup})
			require.NoError(t, err, "at call %d", at)
			for path, s := range states(t, dir) {
				require.Equal(t, uint32(testGroup), s.group, path)
			}
			if !was.Load() {
				break
			}
			reached++
		}
		assert.Greater(t, reached, 40)
	}
}

func TestWhatIsAroundADirectoryThatMovesIsNotMissed(t *testing.T) {
	parent := quickDir(t)
	elsewhere := filepath.Join(parent, "elsewhere")
	require.NoError(t, os.Mkdir(elsewhere, 0o755))
	for at := 2; ; at++ {
		dir, err := os.MkdirTemp(parent, "")
		require.NoError(t, err)
		beside := func(when string) {
			for i := range 4 {
				write(t, filepath.Join(dir, "a", fmt.Sprint(when, i), "file"), 0o600)
				write(t, filepath.Join(dir, "a", "d", fmt.Sprint(when, i), "file"), 0o600)
			}
		}
		beside("before") // some of them are read before it, and some after, in whichever order that is
		write(t, filepath.Join(dir, "a", strings.Repeat("d/", 40), "file"), 0o600)
		beside("after")
		var was atomic.Bool
		_, err = Apply(&hooked{Context: t.Context(), hook: func(n int) {
			if n == at {
				was.Store(true)
				assert.NoError(t, os.Rename(filepath.Join(dir, "a", "d", "d"), filepath.Join(elsewhere, fmt.Sprint(at))))
			}
		}}, dir, Options{Group: testGroup})
		require.NoError(t, err)
		for path, s := range states(t, dir) {
			require.Equal(t, uint32(testGroup), s.group, "%s at call %d", path, at)
		}
		if !was.Load() {
			assert.Greater(t, at, 40)
			return
		}
	}
}

func TestWithoutFchmodat2TheModeIsSetThroughProc(t *testing.T) {
	volume := quickDir(t)
	for _, mode := range []os.FileMode{0o600, 0o755 | fs.ModeSetuid} {
		path := filepath.Join(volume, "file")
		write(t, path, mode)
		fd, err := openRoot(path)
		require.NoError(t, err)
		before := states(t, path)
		require.NoError(t, chmodThroughProc(fd, before[""].mode&0o7777|0o660))
		want := before[""]
		want.mode |= 0o660
		assert.Equal(t, want, stateOf(t, path))
		unix.Close(fd)
	}
}
