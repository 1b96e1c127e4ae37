// SPDX-License-Identifier: Apache-2.0

package blockmap

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mounter"
	"github.com/volumekit/volumekit/internal/syscallfault"
	"github.com/volumekit/volumekit/volume"
)

func TestADeviceIsMappedAndUnmappedAfterADisturbanceAnywhere(t *testing.T) {
	device, _ := newDevice(t)
	supervisor, mounter := syscallfault.New(t), mounter.New()
	verdicts := map[string]syscallfault.Verdict{"killed": syscallfault.Kill(), "failed": syscallfault.Fail(unix.EIO)}
	for name, verdict := range verdicts {
		for _, unmap := range []bool{false, true} {
			for _, thenUnmap := range []bool{false, true} {
				if thenUnmap && verdict != syscallfault.Kill() {
					continue // it is what comes after a kill that takes all ways
				}
				steps := 0
				for at := 0; ; at++ {
					root := t.TempDir()
					m := mappingIn(root, device.Path, "uid-a")
					if unmap {
						_, err := Map(t.Context(), mounter, m)
						require.NoError(t, err)
					}
					cmd := programFor(t, task{Unmap: unmap, Mapping: m})
					calls, err := supervisor.Run(cmd, func(n int, _ syscallfault.Call) syscallfault.Verdict {
						if n == at {
							return verdict
						}
						return syscallfault.Continue()
					})
					require.NoError(t, err)
					done := len(calls) <= at
					where := []any{"%s, unmap %v, at %d", name, unmap, at}
					if !done {
						where = []any{"%s, unmap %v, at %d: %s", name, unmap, at, calls[at]}
					} else {
						require.Zero(t, cmd.ProcessState.ExitCode())
						steps = at
					}
					require.LessOrEqual(t, len(locksOf(t, m)), 1, where...)

					if !thenUnmap {
						lock, err := Map(t.Context(), mounter, m)
						require.NoError(t, err, where...)
						require.Equal(t, lock, locksOf(t, m)[0], where...)
						require.Len(t, locksOf(t, m), 1, where...)
						requirePresence(t, volume.Present, m)
					}
					require.NoError(t, Unmap(t.Context(), mounter, m), where...)
					requireNothing(t, root, m)
					require.False(t, t.Failed(), where...)
					if done {
						break
					}
				}
				require.Greater(t, steps, 8)
			}
		}
	}
}

func TestCyclesWithFreshProcessesLeaveNothing(t *testing.T) {
	device, _ := newDevice(t)
	root, mounter := t.TempDir(), mounter.New()
	m := mappingIn(root, device.Path, "uid-a")
	for i := range 100 {
		if i%10 != 0 {
			_, err := Map(t.Context(), mounter, m)
			require.NoError(t, err)
		} else {
			output, err := programFor(t, task{Mapping: m}).CombinedOutput()
			require.NoError(t, err, string(output))
		}
		requirePresence(t, volume.Present, m)
		require.Len(t, locksOf(t, m), 1)
		if i%10 != 5 {
			require.NoError(t, Unmap(t.Context(), mounter, m))
		} else {
			output, err := programFor(t, task{Unmap: true, Mapping: m}).CombinedOutput()
			require.NoError(t, err, string(output))
		}
		requireNothing(t, root, m)
		require.False(t, t.Failed())
	}
}
