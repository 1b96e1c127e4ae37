// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/internal/syscallfault"
	"github.com/volumekit/volumekit/volume"
)

// The tests below run this binary once more, which does one thing with the device in the base path that the first variable names.
const (
	baseEnv = "BLOCKDEV_TEST_BASE"
	actEnv  = "BLOCKDEV_TEST_ACT"
)

// What the program says of its error, by its exit code.
const (
	actFailed    = 3
	actUncertain = 4
)

func (w *workshop) claim(act string) *v1.PersistentVolumeClaim {
	if strings.HasSuffix(act, " raw") {
		return rawClaimOf("1Mi")
	}
	return claimOf("1Mi")
}

func TestActOnADevice(t *testing.T) {
	base, act := os.Getenv(baseEnv), os.Getenv(actEnv)
	if base == "" {
		return // run as a test, which is fine
	}
	w := workshopIn(t, base, map[string]string{"scrubOnDelete": "true"})
	var err error
	switch verb, _, _ := strings.Cut(act, " "); verb {
	case "provision":
		_, err = w.provision(t.Context(), "pvc-data", w.claim(act))
	case "delete":
		err = w.delete(t.Context(), w.mustProvision(t, "pvc-data", w.claim(act)))
	case "expand":
		_, err = w.expand(t, w.mustProvision(t, "pvc-data", w.claim(act)), "2Mi")
	}
	switch {
	case errors.Is(err, volume.ErrUncertain):
		os.Exit(actUncertain)
	case err != nil:
		os.Exit(actFailed)
	}
}

// act runs the binary, and disturbs the call with the number.
func (w *workshop) act(t *testing.T, s *syscallfault.Supervisor, act string, at int, verdict syscallfault.Verdict) (*os.ProcessState, []syscallfault.Call) {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(program, "-test.run=^TestActOnADevice$")
	cmd.Env = append(os.Environ(), baseEnv+"="+w.base, actEnv+"="+act)
	n := -1
	var calls []syscallfault.Call
	_, err = s.Run(cmd, func(_ int, call syscallfault.Call) syscallfault.Verdict {
		if !strings.HasPrefix(strings.Join(call.Paths, ""), w.base) {
			return syscallfault.Continue() // of the test binary itself
		}
		calls = append(calls, call)
		if n++; n == at {
			return verdict
		}
		return syscallfault.Continue()
	})
	require.NoError(t, err)
	return cmd.ProcessState, calls
}

func TestDisturbedAnywhereTheSameCallGoesOn(t *testing.T) {
	mountns.RequirePrivate(t)
	supervisor := syscallfault.New(t)
	verdicts := map[string]syscallfault.Verdict{"killed": syscallfault.Kill(), "failed": syscallfault.Fail(unix.EIO)}
	for act, steps := range map[string]int{"provision raw": 1, "provision": 5, "delete raw": 1, "expand raw": 1} {
		for verdictName, verdict := range verdicts {
			t.Run(act+", "+verdictName, func(t *testing.T) {
				for at := 0; ; at += steps {
					w := newWorkshop(t, map[string]string{"scrubOnDelete": "true"})
					var pv *v1.PersistentVolume
					var before left
					if act != "provision" && act != "provision raw" {
						pv = w.mustProvision(t, "pvc-data", w.claim(act))
						before = left{bytes.Repeat([]byte("secret! "), 1<<12), idOfPath(t, pv.Spec.Local.Path)}
						overwrite(t, pv.Spec.Local.Path, 4096, before.written)
					}
					state, calls := w.act(t, supervisor, act, at, verdict)
					if at >= len(calls) {
						require.Zero(t, state.ExitCode())
						require.Greater(t, at, 10)
						t.Logf("%d calls", len(calls))
						return
					}
					w.check(t, act, pv, before, state.ExitCode(), calls[at].String())
				}
			})
		}
	}
}

// left is the device before the call, and what was written to it.
type left struct {
	written []byte
	id      fileID
}

func idOfPath(t *testing.T, path string) fileID {
	t.Helper()
	id, err := statx(unix.AT_FDCWD, path, 0, path)
	require.NoError(t, err)
	return id
}

// check looks at what is left, and has the call go on.
func (w *workshop) check(t *testing.T, act string, pv *v1.PersistentVolume, before left, code int, at string) {
	t.Helper()
	path := filepath.Join(w.base, "pvc-data.img")
	switch verb, _, _ := strings.Cut(act, " "); verb {
	case "provision":
		if _, err := os.Lstat(path); err == nil {
			info, err := os.Lstat(path)
			require.NoError(t, err, at)
			require.EqualValues(t, 1<<20, info.Size(), at)
			if act == "provision" {
				require.Equal(t, "ext4", contentOf(t, path).Type, at)
			}
		}
		if code == actFailed {
			for _, left := range filesBelow(t, w.base) {
				require.False(t, strings.HasSuffix(left, ".img") || strings.HasSuffix(left, ".json"), "%s: %s is left", at, left)
			}
		}
		pv = w.mustProvision(t, "pvc-data", w.claim(act))
		if act == "provision" {
			require.Equal(t, "ext4", contentOf(t, path).Type, at)
		}
	case "delete":
		again, err := w.provision(t.Context(), "pvc-data", w.claim(act))
		switch {
		case errors.Is(err, volume.ErrInUse): // half deleted
		default:
			require.NoError(t, err, at)
			require.Equal(t, pv, again, at)
			content, err := os.ReadFile(path)
			require.NoError(t, err, at)
			if idOfPath(t, path) == before.id {
				require.Equal(t, before.written, content[4096:4096+len(before.written)], at)
			} else { // it was deleted, and is a new one
				require.True(t, contentOf(t, path).Blank, at)
			}
		}
	case "expand":
		for range 2 {
			result, err := w.expand(t, pv, "2Mi")
			require.NoError(t, err, at)
			require.EqualValues(t, 2<<20, result.Size.Value(), at)
		}
		content, err := os.ReadFile(path)
		require.NoError(t, err, at)
		require.Len(t, content, 2<<20, at)
		require.Equal(t, before.written, content[4096:4096+len(before.written)], at)
	}
	require.NoError(t, w.delete(t.Context(), pv), at)
	require.Empty(t, filesBelow(t, w.base), at)
}
