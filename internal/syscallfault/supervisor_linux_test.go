// SPDX-License-Identifier: Apache-2.0

package syscallfault

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/mountns"
)

// texts shows calls without the name of the directory that they are in.
func texts(dir string, calls []Call) []string {
	all := make([]string, len(calls))
	for i, call := range calls {
		all[i] = strings.ReplaceAll(call.String(), dir, "DIR")
	}
	return all
}

// names are the files and directories below dir.
func names(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if path != dir {
			all = append(all, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	}))
	return all
}

func TestASupervisor(t *testing.T) {
	supervisor := New(t)
	for name, test := range map[string]func(*testing.T, *Supervisor){
		"every change is told in its order":                          everyChangeIsToldInItsOrder,
		"the program is killed before the call":                      theProgramIsKilledBeforeTheCall,
		"a call that is to fail gives the error and changes nothing": aCallThatIsToFailGivesTheErrorAndChangesNothing,
		"looking changes nothing":                                    lookingChangesNothing,
		"every call of every thread is told once":                    everyCallOfEveryThreadIsToldOnce,
		"nothing happens after a kill":                               nothingHappensAfterAKill,
		"what the program starts is supervised too":                  whatTheProgramStartsIsSupervisedToo,
		"a process that the program leaves ends with it":             aProcessThatTheProgramLeavesEndsWithIt,
		"mounts are told of":                                         mountsAreToldOf,
		"the command is what it would be alone":                      theCommandIsWhatItWouldBeAlone,
		"inherited descriptors keep their numbers":                   inheritedDescriptorsKeepTheirNumbers,
		"a program that cannot be executed is a failed one":          aProgramThatCannotBeExecutedIsAFailedOne,
		"an ordinary user is supervised":                             anOrdinaryUserIsSupervised,
	} {
		t.Run(name, func(t *testing.T) { test(t, supervisor) })
	}
}

func everyChangeIsToldInItsOrder(t *testing.T, supervisor *Supervisor) {
	dir := t.TempDir()
	cmd := program("change", dir)
	var numbers []int
	calls, err := supervisor.Run(cmd, func(n int, _ Call) Verdict {
		numbers = append(numbers, n)
		return Continue()
	})
	require.NoError(t, err)
	assert.Zero(t, cmd.ProcessState.ExitCode())
	assert.Equal(t, []string{
		`mkdirat("DIR/a", 0o750)`,
		`mkdirat("DIR/a/b", 0o750)`,
		`symlinkat("elsewhere", "DIR/a/link")`,
		`openat("DIR/a/file", 0x80041)`,
		`write("DIR/a/file", 4)`,
		`fchmod("DIR/a/file", 0o640)`,
		`fsync("DIR/a/file")`,
		fmt.Sprintf(`fchownat("DIR/a", %d, %d)`, os.Getuid(), os.Getgid()),
		`renameat("DIR/a/file", "DIR/a/b/file")`,
		`unlinkat("DIR/a/link", 0x0)`,
	}, texts(dir, calls))
	assert.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, numbers)
	assert.Equal(t, []string{dir + "/a/file", dir + "/a/b/file"}, calls[8].Paths)
}

func theProgramIsKilledBeforeTheCall(t *testing.T, supervisor *Supervisor) {
	seen := [][]string{
		nil, {"a"}, {"a", "a/b"}, {"a", "a/b", "a/link"}, {"a", "a/b", "a/file", "a/link"}, {"a", "a/b", "a/file", "a/link"},
		{"a", "a/b", "a/file", "a/link"}, {"a", "a/b", "a/file", "a/link"}, {"a", "a/b", "a/file", "a/link"}, {"a", "a/b", "a/b/file", "a/link"},
	}
	for at, want := range seen {
		dir := t.TempDir()
		cmd := program("change", dir)
		calls, err := supervisor.Run(cmd, func(n int, _ Call) Verdict {
			if n == at {
				return Kill()
			}
			return Continue()
		})
		require.NoError(t, err)
		assert.Equal(t, syscall.SIGKILL, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(), "at %d", at)
		assert.Len(t, calls, at+1)
		assert.Equal(t, want, names(t, dir), "at %d: %v", at, calls)
	}
}

func aCallThatIsToFailGivesTheErrorAndChangesNothing(t *testing.T, supervisor *Supervisor) {
	for at, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EIO, syscall.EBUSY, syscall.EMFILE} {
		dir := t.TempDir()
		cmd := program("change", dir)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		calls, err := supervisor.Run(cmd, func(n int, _ Call) Verdict {
			if n == at {
				return Fail(errno)
			}
			return Continue()
		})
		require.NoError(t, err)
		assert.Equal(t, 3, cmd.ProcessState.ExitCode())
		assert.Len(t, calls, at+1)
		assert.Contains(t, stderr.String(), errno.Error())
		assert.Len(t, names(t, dir), at)
	}
}

func lookingChangesNothing(t *testing.T, supervisor *Supervisor) {
	cmd := program("look", t.TempDir())
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	calls, err := supervisor.Run(cmd, nil)
	require.NoError(t, err)
	assert.Zero(t, cmd.ProcessState.ExitCode())
	assert.Equal(t, "looked around\n", stdout.String())
	assert.Empty(t, calls)
}

func everyCallOfEveryThreadIsToldOnce(t *testing.T, supervisor *Supervisor) {
	dir := t.TempDir()
	calls, err := supervisor.Run(program("side", dir), nil)
	require.NoError(t, err)
	told := map[string]bool{}
	for _, call := range calls {
		told[call.Paths[0]] = true
	}
	assert.Len(t, calls, allSideBySide)
	assert.Len(t, told, allSideBySide)
	assert.Len(t, names(t, dir), allSideBySide)
}

func nothingHappensAfterAKill(t *testing.T, supervisor *Supervisor) {
	for range 5 {
		dir := t.TempDir()
		calls, err := supervisor.Run(program("side", dir), func(n int, _ Call) Verdict {
			if n == 100 {
				return Kill()
			}
			return Continue()
		})
		require.NoError(t, err)
		assert.Len(t, calls, 101)
		assert.LessOrEqual(t, len(names(t, dir)), 100)
	}
}

func whatTheProgramStartsIsSupervisedToo(t *testing.T, supervisor *Supervisor) {
	dir := t.TempDir()
	calls, err := supervisor.Run(program("parent", dir), nil)
	require.NoError(t, err)
	assert.Len(t, calls, 10)

	dir = t.TempDir()
	cmd := program("parent", dir)
	calls, err = supervisor.Run(cmd, func(n int, call Call) Verdict {
		assert.NotEqual(t, cmd.Process.Pid, call.PID)
		if n == 2 {
			return Kill()
		}
		return Continue()
	})
	require.NoError(t, err)
	assert.Equal(t, syscall.SIGKILL, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(), "the parent ends too")
	assert.Len(t, calls, 3)
	assert.Equal(t, []string{"a", "a/b"}, names(t, dir))
}

func aProcessThatTheProgramLeavesEndsWithIt(t *testing.T, supervisor *Supervisor) {
	cmd := program("daemon", t.TempDir())
	var stdout bytes.Buffer
	cmd.Stdout = &stdout // a pipe, which the other process keeps open to its end
	cmd.WaitDelay = time.Minute
	_, err := supervisor.Run(cmd, nil)
	require.NoError(t, err)
	assert.Zero(t, cmd.ProcessState.ExitCode())
}

func mountsAreToldOf(t *testing.T, supervisor *Supervisor) {
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
	dir := t.TempDir()
	cmd := program("mount", dir)
	calls, err := supervisor.Run(cmd, nil)
	require.NoError(t, err)
	assert.Zero(t, cmd.ProcessState.ExitCode())
	assert.Equal(t, []string{
		`mount("source", "DIR", "tmpfs", 0x2)`,
		`open_tree("DIR", 0x80001)`,
		`move_mount("/", "DIR", 0x4)`,
		`umount2("DIR", 0x0)`,
		`umount2("DIR", 0x2)`,
	}, texts(dir, calls))
}

func theCommandIsWhatItWouldBeAlone(t *testing.T, supervisor *Supervisor) {
	dir := t.TempDir()
	cmd := program("environ", dir)
	cmd.Args[0] = "its own name"
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "SYSCALLFAULT_TEST_VARIABLE=value")
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	_, err := supervisor.Run(cmd, nil)
	require.NoError(t, err)
	assert.Equal(t, "its own name "+dir+" value\n", stdout.String())
}

func inheritedDescriptorsKeepTheirNumbers(t *testing.T, supervisor *Supervisor) {
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer func() { assert.NoError(t, file.Close()) }()
	cmd := program("descriptor", t.TempDir())
	cmd.ExtraFiles = []*os.File{nil, file}
	calls, err := supervisor.Run(cmd, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{`write("DIR/file", 4)`}, texts(filepath.Dir(file.Name()), calls))
	text, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	assert.Equal(t, "told", string(text))
}

func aProgramThatCannotBeExecutedIsAFailedOne(t *testing.T, supervisor *Supervisor) {
	_, err := supervisor.Run(exec.Command("no-such-program"), nil)
	require.ErrorIs(t, err, exec.ErrNotFound)

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("no program"), 0o700))
	cmd := exec.Command(file)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	_, err = supervisor.Run(cmd, nil)
	require.NoError(t, err)
	assert.Equal(t, 127, cmd.ProcessState.ExitCode())
	assert.Contains(t, stderr.String(), file)
}

func anOrdinaryUserIsSupervised(t *testing.T, supervisor *Supervisor) {
	// t.TempDir is closed to other users.
	dir, err := os.MkdirTemp("", "")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o777))
	cmd := exec.Command("mkdir", dir+"/a") // others cannot execute this binary
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chmod(filepath.Dir(supervisor.stub), 0o755))
		require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(supervisor.stub)), 0o755))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: mountns.OrdinaryUser, Gid: mountns.OrdinaryUser}}
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	calls, err := supervisor.Run(cmd, nil)
	require.NoError(t, err, stderr.String())
	assert.Zero(t, cmd.ProcessState.ExitCode(), stderr.String())
	assert.Len(t, calls, 1)
	assert.Equal(t, []string{"a"}, names(t, dir))
}
