// SPDX-License-Identifier: Apache-2.0

package hardlimit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/syscallfault"
)

// The tests below run this binary once more, which does one thing with the directory that the first variable names.
const (
	dirEnv = "HARDLIMIT_TEST_DIR"
	actEnv = "HARDLIMIT_TEST_ACT"
)

func TestAct(t *testing.T) {
	dir := os.Getenv(dirEnv)
	if dir == "" {
		return // run as a test, which is fine
	}
	options := Options{Bytes: 1 << 20, Only: Image, Prepare: (&fixture{T: t}).prepare}
	switch os.Getenv(actEnv) {
	case "apply":
		_, err := Apply(t.Context(), dir, options)
		require.NoError(t, err)
	case "grow":
		options.Bytes = 20 << 20
		if mayGrowMounted(t) {
			require.NoError(t, Grow(t.Context(), dir, options))
			return
		}
		_, err := Apply(t.Context(), dir, options)
		require.NoError(t, err)
	case "remove":
		require.NoError(t, Remove(t.Context(), dir, options))
	}
}

func (f *fixture) command(act string) *exec.Cmd {
	program, err := os.Executable()
	require.NoError(f, err)
	cmd := exec.Command(program, "-test.run=^TestAct$")
	cmd.Env = append(os.Environ(), dirEnv+"="+f.dir, actEnv+"="+act)
	return cmd
}

// applyWhenFree calls Apply until the programs that the killed one had started let go of the device.
func (f *fixture) applyWhenFree() {
	f.Helper()
	for {
		_, err := Apply(f.Context(), f.dir, f.options)
		if !errors.Is(err, unix.EBUSY) {
			require.NoError(f, err)
			return
		}
		runtime.Gosched()
	}
}

func TestKilledAtAnyStepTheSameCallGoesOn(t *testing.T) {
	supervisor := syscallfault.New(t)
	for _, test := range []struct {
		act    string
		begin  func(f *fixture)
		finish func(f *fixture)
	}{
		{"apply", func(*fixture) {}, (*fixture).applyWhenFree},
		{"grow", func(f *fixture) {
			f.apply()
			f.write("file", "content")
			if !mayGrowMounted(f.T) {
				require.NoError(f, unix.Unmount(f.dir, 0)) // then it is grown when it is mounted
			}
		}, func(f *fixture) {
			f.options.Bytes = 20 << 20
			if mayGrowMounted(f.T) {
				require.NoError(f, Grow(f.Context(), f.dir, f.options))
			}
			f.applyWhenFree()
			f.wantRoom(20 << 20)
			f.wantContent("file", "content")
		}},
		{"remove", func(f *fixture) { f.apply() }, func(f *fixture) { f.remove() }},
	} {
		t.Run(test.act, func(t *testing.T) {
			f := newFixture(t, 1<<20)
			// run does it, killed before the call that is given, or not at all.
			run := func(at int) []syscallfault.Call {
				f.options.Bytes = 1 << 20
				test.begin(f)
				cmd := f.command(test.act)
				calls, err := supervisor.Run(cmd, func(n int, _ syscallfault.Call) syscallfault.Verdict {
					if n == at {
						return syscallfault.Kill()
					}
					return syscallfault.Continue()
				})
				require.NoError(t, err)
				require.Equal(t, len(calls) > at && at >= 0, cmd.ProcessState.ExitCode() < 0)
				return calls
			}
			steps := run(-1)
			f.remove()
			for n := range steps {
				if n > 0 && n < len(steps)-1 && steps[n].Name == steps[n-1].Name {
					continue // of the many that mkfs writes, one after the other
				}
				for _, goOn := range []bool{true, false} {
					run(n)
					before := fmt.Sprintf("killed before call %d: %s", n, steps[n])
					if goOn {
						test.finish(f)
						if test.act != "remove" {
							var st unix.Stat_t
							require.NoError(t, unix.Stat(f.dir, &st), before)
							require.EqualValues(t, mode, st.Mode&0o7777, before)
							require.Equal(t, Limit{Kind: Image, Complete: true, Mounted: true}, f.find(), before)
							require.Len(t, f.devices(), 1, before)
						}
					}
					f.remove()
					if t.Failed() {
						t.Fatal(before)
					}
				}
			}
		})
	}
}
