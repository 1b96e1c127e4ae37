// SPDX-License-Identifier: Apache-2.0

package mountns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/moby/sys/mountinfo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// actEnv makes a run of this binary do one thing in TestAct; see run.
const actEnv = "MOUNTNS_TEST_ACT"

// acts are what the runs of this binary do that the tests below start.
var acts = map[string]func(t *testing.T){
	"nothing": func(*testing.T) {},
	"fail":    func(t *testing.T) { t.Error("failed on purpose") },
	"exit":    func(*testing.T) { os.Exit(7) },
	"pid":     func(*testing.T) { fmt.Println("pid is", os.Getpid()) },
	"leave a mount": func(t *testing.T) {
		// In a directory from before: t.TempDir could not be removed.
		require.NoError(t, unix.Mount("none", "/sys", "tmpfs", 0, ""))
	},
	"leave a file": func(t *testing.T) {
		require.NoError(t, os.WriteFile(filepath.Join(os.TempDir(), "stray"), nil, 0o600))
	},
	"leave a goroutine": func(*testing.T) { go func() { select {} }() },
	"leave a loop device": func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "image")
		require.NoError(t, os.WriteFile(file, make([]byte, 1<<20), 0o600))
		out, err := exec.Command("losetup", "--find", "--show", file).CombinedOutput()
		require.NoError(t, err, string(out))
		fmt.Println("attached", strings.TrimSpace(string(out)))
	},
	"need the namespace": func(t *testing.T) { RequirePrivate(t) },
	"start itself": func(t *testing.T) {
		before, err := current()
		require.NoError(t, err)
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestAct$")
		cmd.Env = append(os.Environ(), actEnv+"=print the namespace")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		assert.Contains(t, string(out), before)
	},
	"print the namespace": func(t *testing.T) {
		now, err := current()
		require.NoError(t, err)
		fmt.Println(now)
		go func() { select {} }() // no business of a process that a test starts
	},
}

func TestAct(t *testing.T) {
	if name := os.Getenv(actEnv); name != "" {
		acts[name](t)
	}
}

func FuzzAct(f *testing.F) {
	f.Add([]byte("seed"))
	f.Fuzz(func(t *testing.T, _ []byte) { RequirePrivate(t) })
}

// command is a fresh run of this binary that does one of acts.
func command(t *testing.T, act string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestAct$", "-test.v")
	cmd.Dir = "/"
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, env+"=") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, actEnv+"="+act, "TMPDIR="+t.TempDir())
	t.Cleanup(func() {
		if cmd.Process != nil {
			_ = cmd.Process.Kill() // a test that failed halfway
		}
	})
	return cmd
}

func TestMainGivesAllThreadsOnePrivateNamespace(t *testing.T) {
	RequirePrivate(t)
	_, outside, ok := strings.Cut(os.Getenv(env), " ")
	require.True(t, ok)
	here, err := current()
	require.NoError(t, err)
	require.NotEqual(t, outside, here)

	var ready, done sync.WaitGroup
	defer done.Wait()
	release := make(chan struct{})
	defer close(release)
	for range 8 { // so that there are threads made after the start
		ready.Add(1)
		done.Go(func() {
			runtime.LockOSThread()
			ready.Done()
			<-release
		})
	}
	ready.Wait()
	links, err := filepath.Glob("/proc/self/task/*/ns/mnt")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(links), 8)
	for _, link := range links {
		namespace, err := os.Readlink(link)
		if errors.Is(err, os.ErrNotExist) {
			continue // the thread ended
		}
		require.NoError(t, err)
		assert.Equal(t, here, namespace, link)
	}

	infos, err := mountinfo.GetMounts(nil)
	require.NoError(t, err)
	for _, info := range infos {
		assert.Empty(t, info.Optional, "%s propagates", info.Mountpoint)
	}
}

func TestTheTestsCannotChangeWhatBelongsToTheSystem(t *testing.T) {
	RequirePrivate(t)
	for _, dir := range []string{"/etc", "/usr"} {
		_, err := os.Create(filepath.Join(dir, "volumekit-test"))
		require.ErrorIs(t, err, unix.EROFS)
	}
}

func TestMainReportsWhatTestsLeaveBehind(t *testing.T) {
	RequirePrivate(t)
	for _, test := range []struct {
		act    string
		status int
		says   string
	}{
		{act: "nothing"},
		{act: "fail", status: 1, says: "failed on purpose"},
		{act: "exit", status: 7},
		{act: "leave a mount", status: 1, says: `still mounted: ["/sys"]`},
		{act: "leave a file", status: 1, says: `"stray"`},
		{act: "leave a goroutine", status: 1, says: "found unexpected goroutines"},
		{act: "start itself"},
	} {
		t.Run(test.act, func(t *testing.T) {
			CheckNoMountsLeft(t)
			cmd := command(t, test.act)
			out, err := cmd.CombinedOutput()
			assert.Equal(t, test.status, cmd.ProcessState.ExitCode(), "%v\n%s", err, out)
			assert.Contains(t, string(out), test.says)
			if test.status == 0 {
				assert.NotContains(t, string(out), "left behind")
			}
		})
	}
}

func TestMainReportsALoopDeviceOnAFileOfTheTests(t *testing.T) {
	RequirePrivate(t)
	cmd := command(t, "leave a loop device")
	out, _ := cmd.CombinedOutput()
	_, device, ok := strings.Cut(string(out), "attached ")
	require.True(t, ok, string(out))
	device, _, _ = strings.Cut(device, "\n")
	detached, err := exec.Command("losetup", "--detach", device).CombinedOutput()
	require.NoError(t, err, string(detached))

	assert.Equal(t, 1, cmd.ProcessState.ExitCode())
	assert.Contains(t, string(out), "loop devices in use: "+device)
}

func TestMountsOfTheTestsDoNotPropagate(t *testing.T) {
	RequirePrivate(t)
	CheckNoMountsLeft(t)
	require.NoError(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")) // as systemd does on most machines
	t.Cleanup(func() { require.NoError(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")) })
	out, _ := command(t, "leave a mount").CombinedOutput()
	require.Contains(t, string(out), `still mounted: ["/sys"]`)
}

func TestMainKeepsTheProcess(t *testing.T) {
	RequirePrivate(t)
	cmd := command(t, "pid")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Contains(t, string(out), fmt.Sprintln("pid is", cmd.Process.Pid))
}

func TestAnOrdinaryUserSkipsTestsThatMount(t *testing.T) {
	RequirePrivate(t) // to become that user
	cmd := command(t, "need the namespace")
	tmp, err := os.MkdirTemp("", "") // t.TempDir is closed to others
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(tmp)) })
	require.NoError(t, os.Chmod(tmp, 0o777))
	cmd.Env = append(cmd.Env, "TMPDIR="+tmp, "GOCOVERDIR="+tmp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Contains(t, string(out), "needs a private mount namespace: not root")
}

func TestFuzzWorkersShareTheNamespace(t *testing.T) {
	RequirePrivate(t)
	cmd := command(t, "nothing")
	cmd.Args = append(cmd.Args, "-test.fuzz=^FuzzAct$", "-test.fuzztime=20x", "-test.fuzzcachedir="+t.TempDir())
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Contains(t, string(out), "execs: 20")
}
