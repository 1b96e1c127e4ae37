// SPDX-License-Identifier: Apache-2.0

package mountns

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// env is how a process tells the one that replaces it, and those that it starts, that the namespace has been made. Its
// value is "unavailable: " and the reason, or the process ID of the owner and the link text of the namespace that it left.
const env = "VOLUMEKIT_TEST_MOUNTNS"

const unavailable = "unavailable: "

// RequirePrivate skips the test unless it runs in a private mount namespace that [Main] made, that is: as root on Linux. It
// fails a test whose package does not call Main, so that nothing is mounted on the machine by mistake.
func RequirePrivate(t testing.TB) {
	t.Helper()
	value, ok := os.LookupEnv(env)
	if !ok {
		t.Fatal("a test that mounts needs a TestMain that calls mountns.Main")
	}
	if why, ok := strings.CutPrefix(value, unavailable); ok {
		t.Skip("needs a private mount namespace: " + why)
	}
	if _, inside, err := parse(value); err != nil || !inside {
		t.Fatalf("not in the mount namespace that mountns.Main made: %v", err)
	}
}

// namespace is where the tests run.
type namespace struct {
	owner  bool // of the namespace, or the only process where there is none
	before mountTable
	tmp    string // the run's own TMPDIR, empty without a namespace
}

// enter returns in the namespace, if there can be one: the first process of a test run is replaced on the way.
func enter() (namespace, error) {
	value := os.Getenv(env)
	if strings.HasPrefix(value, unavailable) {
		return namespace{}, nil // started by the process that found this out
	}
	if value != "" {
		owner, inside, err := parse(value)
		if err != nil {
			return namespace{}, err
		}
		if inside {
			ns := namespace{owner: owner, tmp: os.TempDir()}
			ns.before, err = readMountTable()
			return ns, err
		}
	}
	if os.Geteuid() != 0 {
		return namespace{owner: true}, os.Setenv(env, unavailable+"not root")
	}
	return replace()
}

// parse reads the value of env: whether this process owns the namespace, and whether it is inside.
func parse(value string) (owner, inside bool, err error) {
	now, err := current()
	if err != nil {
		return false, false, err
	}
	pid, outside, ok := strings.Cut(value, " ")
	if !ok {
		return false, false, fmt.Errorf("environment variable %s=%q is not one of ours", env, value)
	}
	return pid == fmt.Sprint(os.Getpid()), outside != now, nil
}

func current() (string, error) { return os.Readlink("/proc/thread-self/ns/mnt") }

// replace executes the binary again in a new mount namespace. It returns only where it cannot.
func replace() (namespace, error) {
	outside, err := current()
	if err != nil {
		return namespace{}, err
	}
	// The namespace belongs to one thread until execve ends the others. On an error it keeps the thread, which ends with
	// the process.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		runtime.UnlockOSThread()
		return namespace{owner: true}, os.Setenv(env, unavailable+"unshare: "+err.Error())
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return namespace{}, fmt.Errorf("make / private: %w", err)
	}
	if err := protectHost(); err != nil {
		return namespace{}, err
	}
	// Loop devices and the temporary directory belong to the machine, on which the tests of other packages run at the same
	// time: with a directory of its own a run can tell which are its own. The name is short, for the sake of Unix sockets
	// (108 bytes).
	tmp, err := os.MkdirTemp("", "vkns")
	if err != nil {
		return namespace{}, err
	}
	if tmp, err = filepath.Abs(tmp); err != nil {
		return namespace{}, err
	}
	// As open as /tmp, for tests that act as another user.
	if err := os.Chmod(tmp, 0o777|fs.ModeSticky); err != nil {
		return namespace{}, err
	}
	for name, value := range map[string]string{"TMPDIR": tmp, env: fmt.Sprintf("%d %s", os.Getpid(), outside)} {
		if err := os.Setenv(name, value); err != nil {
			return namespace{}, err
		}
	}
	err = unix.Exec("/proc/self/exe", os.Args, os.Environ())
	return namespace{}, &fs.PathError{Op: "execute again", Path: os.Args[0], Err: err}
}

// protectHost makes what belongs to the system read-only in the namespace. A broken test can leave a mount of it in a
// temporary directory, and the testing package removes that directory through whatever is mounted in it.
func protectHost() error {
	for _, dir := range []string{"/boot", "/etc", "/usr"} {
		err := unix.Mount(dir, dir, "", unix.MS_BIND|unix.MS_REC, "")
		if err == unix.ENOENT {
			continue
		}
		if err == nil {
			err = unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
		}
		if err != nil {
			return &fs.PathError{Op: "make read-only for the tests", Path: dir, Err: err}
		}
	}
	return nil
}

// left tells what the tests left, one error for each kind.
func (ns namespace) left() []error {
	var left []error
	if ns.before != nil {
		if err := ns.before.compare(); err != nil {
			left = append(left, err)
		}
	}
	if ns.tmp != "" {
		if err := leftLoopDevices(ns.tmp); err != nil {
			left = append(left, err)
		}
		if err := leftFiles(ns.tmp); err != nil {
			left = append(left, err)
		}
	}
	return left
}
