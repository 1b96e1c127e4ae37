// SPDX-License-Identifier: Apache-2.0

package syscallfault

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Supervisor runs programs. It may be used concurrently.
type Supervisor struct {
	stub    string
	changes map[uint32]change
	filter  []byte
}

// New builds what the supervisor needs, with the go command, in a directory that goes with the test.
func New(t testing.TB) *Supervisor {
	t.Helper()
	if auditArch == 0 {
		t.Fatalf("syscallfault does not know the system calls of %s", runtime.GOARCH)
	}
	stub := filepath.Join(t.TempDir(), "stub")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", stub, "github.com/volumekit/volumekit/internal/syscallfault/stub")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the stub of syscallfault: %v\n%s", err, output)
	}
	all := changes()
	s := &Supervisor{stub: stub, changes: map[uint32]change{}, filter: instructions(all)}
	for _, c := range all {
		s.changes[c.number] = c
	}
	return s
}

// Run starts the program as cmd.Run does, in a process group of its own, and asks decide about each call that changes
// something, before it is made, whichever thread makes it. n counts the calls, from 0, in the order in which they arrive,
// which may differ from run to run where threads run side by side. decide is called by one goroutine at a time, and the
// call waits for it. A nil decide lets everything happen.
//
// Run returns the calls in that order, once the program has ended; how is in cmd.ProcessState. What the program started and
// left in its process group is killed then; what left the group goes on, but gets ENOSYS for such calls. The error is about
// the supervision, and about a cmd that could not be started or waited for; it is not that of a program that fails or is
// killed. cmd.Path, Args, ExtraFiles and SysProcAttr.Setpgid are changed.
func (s *Supervisor) Run(cmd *exec.Cmd, decide func(n int, call Call) Verdict) ([]Call, error) {
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	ours, err := s.wrap(cmd)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(ours) }()
	theirs := cmd.ExtraFiles[len(cmd.ExtraFiles)-1]
	err = cmd.Start()
	_ = theirs.Close()
	if err != nil {
		return nil, err
	}
	listener, err := receiveListener(ours)
	if err != nil {
		_ = cmd.Process.Kill()
		return nil, errors.Join(err, waitError(cmd.Wait()))
	}
	defer func() { _ = unix.Close(listener) }()
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		_ = cmd.Process.Kill()
		return nil, errors.Join(os.NewSyscallError("eventfd", err), waitError(cmd.Wait()))
	}
	defer func() { _ = unix.Close(stop) }()

	watch := watch{changes: s.changes, decide: decide, listener: listener, stop: stop, group: cmd.Process.Pid}
	watched := make(chan error, 1)
	go func() {
		err := watch.run()
		if err != nil { // nobody else would let the program go on
			_ = unix.Kill(-watch.group, unix.SIGKILL)
		}
		watched <- err
	}()
	err = waitForEnd(cmd.Process.Pid)
	_ = unix.Kill(-watch.group, unix.SIGKILL) // nobody took the number of the group: its leader has not been reaped
	err = errors.Join(err, waitError(cmd.Wait()))
	_, stopErr := unix.Write(stop, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	err = errors.Join(err, os.NewSyscallError("write", stopErr), <-watched)
	return watch.calls, err
}

// wrap makes the stub of the command, and returns this end of the socket to it, whose other end is the last of the files
// that the command inherits.
func (s *Supervisor) wrap(cmd *exec.Cmd) (ours int, err error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socketpair", err)
	}
	if _, err := unix.Write(ends[0], s.filter); err != nil {
		_, _ = unix.Close(ends[0]), unix.Close(ends[1])
		return -1, os.NewSyscallError("write", err)
	}
	const firstExtra = 3 // see exec.Cmd.ExtraFiles
	number := firstExtra + len(cmd.ExtraFiles)
	cmd.ExtraFiles = append(slices.Clip(cmd.ExtraFiles), os.NewFile(uintptr(ends[1]), "socket to the stub"))
	cmd.Args = append([]string{s.stub, strconv.Itoa(number), cmd.Path}, cmd.Args...)
	cmd.Path = s.stub
	attributes := syscall.SysProcAttr{}
	if cmd.SysProcAttr != nil {
		attributes = *cmd.SysProcAttr
	}
	attributes.Setpgid = true
	cmd.SysProcAttr = &attributes
	return ends[0], nil
}

// receiveListener returns what the stub sends.
func receiveListener(socket int) (int, error) {
	message, rights := make([]byte, 1024), make([]byte, unix.CmsgSpace(4))
	n, length, _, _, err := unix.Recvmsg(socket, message, rights, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("recvmsg", err)
	}
	if n == 0 {
		return -1, errors.New("the stub ended before it had a filter")
	}
	if length == 0 {
		return -1, fmt.Errorf("the kernel does not tell of system calls: %s", message[:n])
	}
	messages, err := unix.ParseSocketControlMessage(rights[:length])
	if err != nil {
		return -1, err
	}
	descriptors, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return -1, err
	}
	return descriptors[0], nil
}

// waitForEnd waits until the process has ended, and leaves it to be reaped.
func waitForEnd(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return os.NewSyscallError("waitid", err)
		}
	}
}

// waitError leaves out that a program failed.
func waitError(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}
