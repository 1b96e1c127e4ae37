// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// The program starts itself under this name, with this argument, in a new mount namespace, to become the command there. It
// needs a process of its own, since the many threads of a Go program cannot leave a user namespace.
const (
	ownName        = "podvolumes"
	becomeArgument = "become-command"
)

// Descriptors of the process that becomes the command.
const (
	viewFD   = 3 // to read a view and the link text of the mount namespace to be out of
	reportFD = 4 // to write a report to; closed by a successful execve
)

// report says why a process did not become the command.
type report struct {
	Status int
	Reason string
}

// runInView runs the view's command and waits for it. ctx bounds the preparations only.
func runInView(ctx context.Context, seen view, s streams) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	viewReader, viewWriter, err := os.Pipe()
	if err != nil {
		return err
	}
	defer viewWriter.Close()
	reportReader, reportWriter, err := os.Pipe()
	if err != nil {
		return errors.Join(err, viewReader.Close())
	}
	defer reportReader.Close()

	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded()...)
	defer signal.Stop(signals)

	cmd := exec.Command("/proc/self/exe", becomeArgument)
	cmd.Args[0] = ownName
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.in, s.out, s.err
	cmd.ExtraFiles = []*os.File{viewReader, reportWriter}
	cmd.SysProcAttr = namespaces()
	// The kernel kills the child when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = cmd.Start()
	err = errors.Join(explainStart(err), viewReader.Close(), reportWriter.Close())
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	became := make(chan error, 1)
	go func() { became <- prepare(seen, viewWriter, reportReader) }()
	select {
	case err = <-became:
	case <-ctx.Done():
		_ = cmd.Process.Kill()
		select {
		case <-ended:
		case <-time.After(time.Second): // what hangs in the kernel for good is not waited for
		}
		return fmt.Errorf("show the mounts of %s: %w", seen.Container, context.Cause(ctx))
	}
	for {
		select {
		case sent := <-signals:
			_ = cmd.Process.Signal(sent)
		case waitErr := <-ended:
			return outcome(err, waitErr)
		}
	}
}

// outcome returns why the command did not start, or else how it ended.
func outcome(startErr, waitErr error) error {
	var exited *exec.ExitError
	switch {
	case startErr != nil:
		return startErr
	case errors.As(waitErr, &exited):
		status := exited.Sys().(syscall.WaitStatus)
		if status.Signaled() {
			return exitStatus(128 + int(status.Signal()))
		}
		return exitStatus(status.ExitStatus())
	}
	return waitErr
}

// forwarded are the signals that the command gets too. What a terminal's keys send it has got already.
func forwarded() []os.Signal {
	signals := []os.Signal{unix.SIGTERM, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		signals = append(signals, unix.SIGINT, unix.SIGQUIT)
	}
	return signals
}

// namespaces are what the command runs in: a mount namespace, and for who is not root a user namespace, which gives the
// right to mount in it, with the same user and group.
func namespaces() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // or else execve takes it from who is not root
	}
	return attr
}

func explainStart(err error) error {
	switch {
	case err == nil:
		return nil
	case os.Geteuid() == 0:
		return fmt.Errorf("start in a new mount namespace, which needs CAP_SYS_ADMIN: %w", err)
	}
	return fmt.Errorf("start in a new user namespace, which an ordinary user needs to mount"+
		" (is it forbidden by user.max_user_namespaces, kernel.unprivileged_userns_clone, AppArmor or seccomp?): %w", err)
}

// prepare tells the child what to do, and waits until it has become the command; the error is why it has not.
func prepare(seen view, to io.Writer, from io.Reader) error {
	outside, err := mountNamespace()
	if err != nil {
		return err
	}
	encoder := gob.NewEncoder(to)
	encodeErr := errors.Join(encoder.Encode(seen), encoder.Encode(outside))
	var said report
	switch err := gob.NewDecoder(from).Decode(&said); {
	case err == io.EOF: // execve has closed the pipe; or the child was killed, which its status tells
		return encodeErr
	case err != nil:
		return err
	case said.Status != notServed:
		return &unstarted{exitStatus(said.Status), said.Reason}
	}
	return errors.New(said.Reason)
}

// unstarted says why a command was not started, and has its exit status.
type unstarted struct {
	exitStatus
	reason string
}

func (e *unstarted) Error() string { return e.reason }

func (e *unstarted) Unwrap() error { return e.exitStatus }

func mountNamespace() (string, error) { return os.Readlink("/proc/self/ns/mnt") }

// startedInNamespace tells whether exec has started this process to become the command.
func startedInNamespace(args []string) bool {
	return len(args) == 2 && args[0] == ownName && args[1] == becomeArgument
}

// becomeCommand shows the container's mounts to this process and executes the command. It returns only if it cannot, then
// with the exit status.
func becomeCommand() int {
	runtime.LockOSThread() // which has the capabilities that are given up
	unix.CloseOnExec(viewFD)
	unix.CloseOnExec(reportFD)
	err := becomeCommandReading(os.NewFile(viewFD, "view"))
	said := report{Status: notServed, Reason: err.Error()}
	if e := (*unstarted)(nil); errors.As(err, &e) {
		said.Status = int(e.exitStatus)
	}
	if err := gob.NewEncoder(os.NewFile(reportFD, "report")).Encode(said); err != nil {
		fmt.Fprintln(os.Stderr, "podvolumes exec:", said.Reason)
	}
	return said.Status
}

func becomeCommandReading(from io.Reader) error {
	var seen view
	var outside string
	decoder := gob.NewDecoder(from)
	if err := errors.Join(decoder.Decode(&seen), decoder.Decode(&outside)); err != nil {
		return fmt.Errorf("only podvolumes exec starts this: %w", err)
	}
	// By no mistake is anything mounted for everybody.
	if inside, err := mountNamespace(); err != nil || inside == outside {
		return errors.Join(errors.New("not in a mount namespace of its own"), err)
	}
	if err := enterView(seen.Mounts); err != nil {
		return fmt.Errorf("show the mounts of %s: %w", seen.Container, err)
	}
	if os.Geteuid() != 0 {
		if err := dropCapabilities(); err != nil {
			return err
		}
	}
	return execute(seen.Command)
}

// dropCapabilities makes execve take the capabilities in the user namespace away.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return os.NewSyscallError("capset", unix.Capset(&header, &none[0]))
}

// execute returns only if the command cannot be executed.
func execute(command []string) error {
	path, err := exec.LookPath(command[0])
	if err == nil {
		err = unix.Exec(path, command, os.Environ())
	}
	status := notExecutable
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		status = notFound
	}
	if e := (*exec.Error)(nil); errors.As(err, &e) {
		err = e.Err
	}
	return &unstarted{exitStatus(status), fmt.Sprintf("execute %s: %v", command[0], err)}
}
