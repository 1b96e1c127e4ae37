// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"k8s.io/utils/exec"
	fakeexec "k8s.io/utils/exec/testing"
)

// script makes a program of the text.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700))
	return path
}

func TestTheOutputIsThatOfBothStreamsInEnglishAndNothingIsRead(t *testing.T) {
	t.Setenv("LC_ALL", "de_DE.UTF-8")
	path := script(t, `cat; echo "$LC_ALL $*"; echo two >&2`)
	for _, x := range []exec.Interface{nil, exec.New()} {
		output, err := Run(t.Context(), x, path, "a b", "$(reboot)", "-f")
		require.NoError(t, err)
		assert.Equal(t, "C a b $(reboot) -f\ntwo\n", string(output))
	}
}

func TestTheStatusAndTheOutputAreInTheError(t *testing.T) {
	path := script(t, "echo said; exit 3")
	output, err := Run(t.Context(), nil, path)
	assert.Equal(t, "said\n", string(output))
	var exited *ExitError
	require.ErrorAs(t, err, &exited)
	assert.Equal(t, 3, exited.Code)
	assert.Equal(t, "said\n", exited.Output)
	assert.EqualError(t, err, path+": exit status 3: said")

	_, err = Run(t.Context(), nil, script(t, "kill -KILL $$"))
	require.ErrorAs(t, err, &exited)
	assert.Equal(t, -1, exited.Code)
	assert.ErrorContains(t, err, "signal: killed: no output")
}

func TestAProgramThatIsNotInstalledIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Run(t.Context(), nil, "no-such-program")
	assert.ErrorIs(t, err, ErrNotFound)
	assert.ErrorContains(t, err, "no-such-program")
	_, err = Run(t.Context(), nil, "/absent/mkfs.ext4")
	assert.ErrorIs(t, err, ErrNotFound)

	_, err = Command{Exec: nil, Name: t.TempDir()}.Run(t.Context())
	assert.Error(t, err)
	assert.NotErrorIs(t, err, ErrNotFound)

	path := script(t, "")
	require.NoError(t, os.Chmod(path, 0o600))
	_, err = Run(t.Context(), nil, path)
	assert.ErrorIs(t, err, fs.ErrPermission)

	assert.EqualError(t, notFound("mkfs.xfs"), "program not found: mkfs.xfs (in Debian it comes with the package xfsprogs)")
}

func TestTheSystemsProgramsAreFoundWithoutPATH(t *testing.T) {
	t.Setenv("PATH", "")
	_, err := Run(t.Context(), nil, "losetup", "--version")
	assert.NoError(t, err)
}

func TestAProgramIsKilledWithItsWholeGroup(t *testing.T) {
	dir := t.TempDir()
	alive, ready := filepath.Join(dir, "alive"), filepath.Join(dir, "ready")
	require.NoError(t, unix.Mkfifo(alive, 0o600))
	require.NoError(t, unix.Mkfifo(ready, 0o600))
	// The grandchild holds alive open for writing; it ends for a reader when nobody does any more.
	path := script(t, fmt.Sprintf("(sleep 1000 & sleep 1000) > %q & echo > %q; wait", alive, ready))
	cause := errors.New("nobody waits any more")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := Run(ctx, nil, path)
		ended <- err
	}()
	_, err := os.ReadFile(ready)
	require.NoError(t, err)
	f, err := os.Open(alive)
	require.NoError(t, err)
	defer f.Close()
	cancel(cause)
	err = <-ended
	assert.ErrorIs(t, err, cause)
	assert.EqualError(t, err, path+": killed: nobody waits any more")
	_, err = f.Read(make([]byte, 1)) // waits for as long as the child lives
	assert.Error(t, err)
}

func TestNothingRunsWhenCtxHasEnded(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Run(ctx, nil, script(t, "touch "+ran))
	assert.ErrorIs(t, err, context.Canceled)
	assert.NoFileExists(t, ran)
}

func TestADaemonIsNotWaitedFor(t *testing.T) {
	stop := filepath.Join(t.TempDir(), "stop")
	require.NoError(t, unix.Mkfifo(stop, 0o600))
	output, err := Run(t.Context(), nil, script(t, fmt.Sprintf("echo said; cat %q & exit 0", stop)))
	require.NoError(t, err)
	assert.Equal(t, "said\n", string(output))
	fifo, err := os.OpenFile(stop, os.O_WRONLY, 0) // ends the daemon when it is closed
	require.NoError(t, err)
	require.NoError(t, fifo.Close())
}

func TestNoMoreOfTheOutputIsKeptThanItsTwoEnds(t *testing.T) {
	path := script(t, "echo first; head -c 100000000 /dev/zero; echo last; exit 1")
	output, err := Run(t.Context(), nil, path)
	assert.Less(t, len(output), 2*defaultKept+100)
	assert.True(t, strings.HasPrefix(string(output), "first\n\x00"))
	assert.True(t, strings.HasSuffix(string(output), "\x00last\n"))
	assert.Contains(t, string(output), fmt.Sprintf("\n[... %d bytes ...]\n", 100000000+len("first\nlast\n")-2*defaultKept))
	var exited *ExitError
	require.ErrorAs(t, err, &exited)
	assert.Equal(t, string(output), exited.Output)
}

func TestKeptHoldsTheTwoEndsHoweverTheOutputComes(t *testing.T) {
	var all strings.Builder
	for i := range 500 {
		fmt.Fprintf(&all, "%d,", i)
	}
	for _, size := range []int{1, 2, 7, 10, 11, 64, 5000} {
		for _, limit := range []struct{ head, tail int }{{10, 10}, {10, 0}, {0, 10}, {5000, 0}, {0, 5000}, {1000, 1000}} {
			k := kept{head: limit.head, tail: limit.tail}
			text := all.String()
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				wrote, err := k.Write([]byte(rest[:n]))
				require.NoError(t, err)
				require.Equal(t, n, wrote)
				rest = rest[n:]
				assert.LessOrEqual(t, len(k.first)+len(k.last), limit.head+3*limit.tail)
			}
			want := text
			if dropped := len(text) - limit.head - limit.tail; dropped > 0 {
				want = text[:limit.head]
				if limit.tail > 0 {
					want += fmt.Sprintf("\n[... %d bytes ...]\n", dropped) + text[len(text)-limit.tail:]
				}
			}
			assert.Equal(t, want, string(k.bytes()), "%d %v", size, limit)
		}
	}
}

func TestTheProgramInheritsWhatItIsToHold(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer f.Close()
	_, err = Command{Name: script(t, "echo held >&3"), Hold: []*os.File{f}}.Run(t.Context())
	require.NoError(t, err)
	data, err := os.ReadFile(f.Name())
	require.NoError(t, err)
	assert.Equal(t, "held\n", string(data))
}

func TestAnotherRunnerIsUsed(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want func(t *testing.T, err error)
	}{
		"success": {nil, func(t *testing.T, err error) { assert.NoError(t, err) }},
		"a status": {&fakeexec.FakeExitError{Status: 4}, func(t *testing.T, err error) {
			var exited *ExitError
			require.ErrorAs(t, err, &exited)
			assert.Equal(t, 4, exited.Code)
			assert.Equal(t, "said", exited.Output)
		}},
		"not installed": {exec.ErrExecutableNotFound, func(t *testing.T, err error) { assert.ErrorIs(t, err, ErrNotFound) }},
		"another error": {unix.EIO, func(t *testing.T, err error) { assert.ErrorIs(t, err, unix.EIO) }},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := &fakeexec.FakeCmd{CombinedOutputScript: []fakeexec.FakeAction{func() ([]byte, []byte, error) { return []byte("said"), nil, test.err }}}
			x := &fakeexec.FakeExec{CommandScript: []fakeexec.FakeCommandAction{func(name string, args ...string) exec.Cmd {
				return fakeexec.InitFakeCmd(cmd, name, args...)
			}}}
			_, err := Run(t.Context(), x, "e2fsck", "-p", "/dev/x")
			test.want(t, err)
			assert.Equal(t, []string{"e2fsck", "-p", "/dev/x"}, cmd.Argv)
			assert.Contains(t, cmd.Env, "LC_ALL=C")
		})
	}
}
