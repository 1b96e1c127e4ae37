// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/exec"
)

const (
	// linger is how long output is awaited of a program that has ended, but has left a daemon that holds the pipe.
	linger = 200 * time.Millisecond

	// dying is how long a killed program is waited for. One that hangs in the kernel does not end before the device answers.
	dying = 5 * time.Second
)

// systemDirs are looked in after PATH, which often lacks them for who is not root.
var systemDirs = []string{"/usr/local/sbin", "/usr/sbin", "/sbin"}

// Run runs a program and returns its output, standard output and standard error together, cut as for [Command]. See
// [Command.Run].
func Run(ctx context.Context, x exec.Interface, name string, args ...string) ([]byte, error) {
	return Command{Exec: x, Name: name, Args: args}.Run(ctx)
}

// Run runs the program and returns its output, standard output and standard error together. It reads no input, and speaks
// English: LC_ALL is C. What it leaves running in the background is not waited for.
//
// When ctx ends, the program is killed with its whole process group; the error matches the cause of ctx's end, and says so if
// the program could not be killed within five seconds. An [*ExitError] says that the program ended with another status than 0,
// and [ErrNotFound] that it is not installed, with the name of Debian's package where that is known.
func (c Command) Run(ctx context.Context) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: not run: %w", c.Name, context.Cause(ctx))
	}
	if c.Head == 0 && c.Tail == 0 {
		c.Head, c.Tail = defaultKept, defaultKept
	}
	if c.Exec != nil && reflect.TypeOf(c.Exec) != reflect.TypeOf(exec.New()) {
		return c.runElsewhere(ctx)
	}
	path, err := find(c.Name)
	if err != nil {
		return nil, err
	}
	output := kept{head: c.Head, tail: c.Tail}
	cmd := osexec.CommandContext(ctx, path, c.Args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.ExtraFiles = c.Hold
	cmd.WaitDelay = linger
	// Out of reach of the terminal's Ctrl-C too: an interrupted mkfs or mount leaves nobody knows what.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return killGroup(cmd.Process.Pid) }
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("run %s: %w", path, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		patience := time.NewTimer(dying)
		defer patience.Stop()
		select {
		case err = <-ended:
		case <-patience.C:
			// Nothing of output is read here: the goroutine that waits still writes to it.
			return nil, fmt.Errorf("%s: %w; it was killed, but has not ended: process %d hangs in the kernel",
				path, context.Cause(ctx), cmd.Process.Pid)
		}
	}
	if cmd.ProcessState.Success() {
		err = nil // although ctx ended, or a daemon holds the output
	}
	return c.result(ctx, path, output.bytes(), err)
}

// killGroup kills the processes of the group. The kernel lets none escape by forking meanwhile.
func killGroup(leader int) error {
	err := unix.Kill(-leader, unix.SIGKILL)
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// runElsewhere runs the program by an embedder's or a test's runner.
func (c Command) runElsewhere(ctx context.Context) ([]byte, error) {
	cmd := c.Exec.CommandContext(ctx, c.Name, c.Args...)
	cmd.SetEnv(append(os.Environ(), "LC_ALL=C"))
	all, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrExecutableNotFound) || errors.Is(err, osexec.ErrNotFound) {
		return nil, notFound(c.Name)
	}
	output := kept{head: c.Head, tail: c.Tail}
	_, _ = output.Write(all) // cannot fail
	return c.result(ctx, c.Name, output.bytes(), err)
}

// result says what the end of a program means.
func (c Command) result(ctx context.Context, path string, output []byte, err error) ([]byte, error) {
	var exited exec.ExitError // of k8s.io/utils; for one of os/exec see code
	var killed *osexec.ExitError
	switch {
	case err == nil:
		return output, nil
	case ctx.Err() != nil:
		return output, fmt.Errorf("%s: killed: %w", path, context.Cause(ctx))
	case errors.As(err, &killed):
		return output, &ExitError{Program: path, Code: killed.ExitCode(), Output: string(output), Err: killed}
	case errors.As(err, &exited):
		return output, &ExitError{Program: path, Code: exited.ExitStatus(), Output: string(output), Err: err}
	}
	return output, fmt.Errorf("run %s: %w", path, err)
}

// find returns the path of a program.
func find(name string) (string, error) {
	path, err := osexec.LookPath(name)
	if err == nil {
		return path, nil
	}
	if strings.ContainsRune(name, filepath.Separator) {
		if errors.Is(err, fs.ErrNotExist) {
			return "", notFound(name)
		}
		return "", fmt.Errorf("run %s: %w", name, err)
	}
	for _, dir := range systemDirs {
		if path, err := osexec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", notFound(name)
}
