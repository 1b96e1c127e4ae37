// SPDX-License-Identifier: Apache-2.0

package mounter

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// withHelper returns a Mounter that finds a helper program with the script as its body.
func withHelper(t *testing.T, m *Mounter, name, script string) *Mounter {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o700))
	m.helperDirs = []string{t.TempDir(), dir}
	return m
}

// record is a script that writes its arguments and its process group to the file.
func record(file string) string {
	return fmt.Sprintf(`{ printf '%%s\n' "$@"; echo "group $(ps -o pgid= -p $$ | tr -d ' ') process $$"; } > %q`, file)
}

func TestAHelperProgramGetsTheArgumentsOfMount(t *testing.T) {
	for name, test := range map[string]struct {
		helper, source, fstype string
		options, sensitive     []string
		want                   func(target string) []string
	}{
		"source and options": {
			helper: "mount.fake", source: "server:/path with space", fstype: "fake",
			options: []string{"ro", "vers=4.1", "defaults", "x-a=b", `c="d,e"`}, sensitive: []string{"password=secret"},
			want: func(target string) []string {
				return []string{"server:/path with space", target, "-o", `ro,vers=4.1,c="d,e",password=secret`}
			},
		},
		"no options": {
			helper: "mount.fake", source: "$(reboot);`reboot`", fstype: "fake",
			want: func(target string) []string { return []string{"$(reboot);`reboot`", target} },
		},
		"no source": {
			helper: "mount.fake", fstype: "fake",
			want: func(target string) []string { return []string{"none", target} },
		},
		"a subtype": {
			helper: "mount.fake", source: "a", fstype: "fake.sub", options: []string{"rw"},
			want: func(target string) []string { return []string{"a", target, "-o", "rw", "-t", "fake.sub"} },
		},
		"a subtype with a program of its own": {
			helper: "mount.fake.sub", source: "a", fstype: "fake.sub",
			want: func(target string) []string { return []string{"a", target, "-t", "fake.sub"} },
		},
		"options that look like those of the program": {
			helper: "mount.fake", source: "a", fstype: "fake", options: []string{"-f", "--verbose"},
			want: func(target string) []string { return []string{"a", target, "-o", "-f,--verbose"} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			target := t.TempDir()
			ran := filepath.Join(t.TempDir(), "ran")
			m := withHelper(t, begin(t), test.helper, record(ran))
			require.NoError(t, m.MountSensitive(test.source, target, test.fstype, test.options, test.sensitive))
			text, err := os.ReadFile(ran)
			require.NoError(t, err)
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			arguments, last := lines[:len(lines)-1], lines[len(lines)-1]
			assert.Equal(t, test.want(target), arguments)

			var group, process int
			_, err = fmt.Sscanf(last, "group %d process %d", &group, &process)
			require.NoError(t, err, last)
			assert.Equal(t, process, group, "it leads a process group")
		})
	}
}

func TestNoHelperProgramRunsOnWhatLooksLikeAnOption(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	m := withHelper(t, begin(t), "mount.fake", record(ran))
	err := m.Mount("-oexec", t.TempDir(), "fake", nil)
	assert.ErrorIs(t, err, unix.EINVAL)
	assert.ErrorContains(t, err, `the source begins with "-"`)
	assert.Error(t, m.Mount("a", "-oexec", "fake", nil))
	assert.NoFileExists(t, ran)
}

func TestTheErrorOfAHelperProgramHasItsOutputWithoutSecrets(t *testing.T) {
	m := withHelper(t, begin(t), "mount.fake", `echo "cannot use $4: secret is wrong" >&2; exit 32`)
	target := t.TempDir()
	err := m.MountSensitive("a", target, "fake", []string{"vers=1"}, []string{"password=secret"})
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 32, exit.ExitCode())
	assert.EqualError(t, err, fmt.Sprintf("mount \"a\" of type \"fake\" on %q (options \"vers=1,<masked>\"): %s: exit status 32: "+
		"cannot use vers=1,<masked>: <masked> is wrong", target, filepath.Join(m.helperDirs[1], "mount.fake")))
}

func TestASecretIsNotHalfShownWhereTheOutputIsCut(t *testing.T) {
	script := fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x; printf secret; head -c 100000 /dev/zero | tr '\0' y; exit 1`, helperOutput-3)
	m := withHelper(t, begin(t), "mount.fake", script)
	err := m.MountSensitive("a", t.TempDir(), "fake", nil, []string{"k=secret"})
	require.Error(t, err)
	assert.True(t, strings.HasSuffix(err.Error(), "xxx"+masked), err.Error()[len(err.Error())-50:])
}

func TestADaemonOfAHelperProgramIsNotWaitedFor(t *testing.T) {
	stop := filepath.Join(t.TempDir(), "stop")
	require.NoError(t, unix.Mkfifo(stop, 0o600))
	m := withHelper(t, begin(t), "mount.fake", fmt.Sprintf("cat %q & exit 0", stop)) // holds standard output
	require.NoError(t, m.Mount("a", t.TempDir(), "fake", nil))
	fifo, err := os.OpenFile(stop, os.O_WRONLY, 0) // ends the daemon when it is closed
	require.NoError(t, err)
	require.NoError(t, fifo.Close())
}

func TestPropagationIsAppliedAfterAHelperProgram(t *testing.T) {
	m := withHelper(t, begin(t), "mount.fake", `[ $# = 2 ] && mount -t tmpfs "$1" "$2"`)
	dir := t.TempDir()
	require.NoError(t, m.Mount("a", dir, "fake", []string{"shared"}))
	unmountAtEnd(t, m, dir)
	assert.Equal(t, "shared:", propagationOf(t, dir))
}

func TestWhatNeedsNoHelperProgramRunsNone(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	m := withHelper(t, begin(t), "mount.tmpfs", record(ran))
	source, target := t.TempDir(), t.TempDir()
	require.NoError(t, m.Mount(source, target, "tmpfs", []string{"bind"}))
	require.NoError(t, m.Mount("", target, "tmpfs", []string{"bind", "remount", "ro"}))
	require.NoError(t, m.Unmount(target))
	assert.NoFileExists(t, ran)
}
