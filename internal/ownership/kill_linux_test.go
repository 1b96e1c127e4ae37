// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/syscallfault"
	"golang.org/x/sys/unix"
)

func TestAWalkThatIsKilledIsDoneAgainAndTheRootComesLast(t *testing.T) {
	supervisor := syscallfault.New(t)
	dir := quickDir(t)
	run := func(volume string, at int, verdict syscallfault.Verdict) ([]syscallfault.Call, syscall.WaitStatus) {
		cmd := programFor(t, volume)
		calls, err := supervisor.Run(cmd, func(n int, _ syscallfault.Call) syscallfault.Verdict {
			if n == at {
				return verdict
			}
			return syscallfault.Continue()
		})
		require.NoError(t, err)
		// Of the changes of the root, all come after all the others.
		root := false
		for _, call := range calls {
			require.Len(t, call.Paths, 1)
			isRoot := call.Paths[0] == volume || call.Paths[0] == volume+"/"
			require.False(t, root && !isRoot, "after the root: %s", call)
			root = root || isRoot
		}
		return calls, cmd.ProcessState.Sys().(syscall.WaitStatus)
	}
	for name, verdict := range map[string]syscallfault.Verdict{
		"killed":        syscallfault.Kill(),
		"out of space":  syscallfault.Fail(unix.ENOSPC),
		"not permitted": syscallfault.Fail(unix.EPERM),
	} {
		for at := 0; ; at++ {
			if at > 20 && at < 150 {
				at += 6 // all of them near both ends
			}
			volume := filepath.Join(dir, name, string(rune('a'+at)))
			colourful(t, volume)
			want := wanted(states(t, volume), Options{Group: testGroup})
			calls, status := run(volume, at, verdict)
			if len(calls) <= at {
				require.Zero(t, status.ExitStatus())
				require.Equal(t, want, states(t, volume))
				require.Greater(t, at, 100)
				break
			}
			if verdict == syscallfault.Kill() {
				require.Equal(t, syscall.SIGKILL, status.Signal())
			} else {
				require.Equal(t, 3, status.ExitStatus(), "at %d: %s", at, calls[at])
			}
			rest, status := run(volume, -1, syscallfault.Continue())
			require.Zero(t, status.ExitStatus())
			require.NotEmpty(t, rest, "the root at least")
			last := rest[len(rest)-1].Paths[0]
			require.Equal(t, volume, filepath.Clean(last))
			for path, s := range states(t, volume) {
				w := want[path]
				if w.mode&unix.S_IFMT == unix.S_IFREG && s.mode != w.mode {
					// Between the two calls that change a setuid or setgid program it has lost the bit.
					w.mode &^= unix.S_ISUID | unix.S_ISGID
				}
				require.Equal(t, w, s, "%s after %s at %d", path, name, at)
			}
			calls, _ = run(volume, -1, syscallfault.Continue())
			assert.Empty(t, calls, "all is right")
		}
	}
}
