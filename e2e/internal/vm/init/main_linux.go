// SPDX-License-Identifier: Apache-2.0

// Init is the first process of a guest of package vm: it runs the guest's job, tells how that ended, and turns the machine off.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/e2e/internal/vm/job"
)

func main() {
	if err := run(); err != nil {
		fmt.Println("init:", err) // on the console
	}
	// The emulator ends when the machine boots again, and this works without ACPI.
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
}

// notStarted is the status of a program that could not be started, as a shell has it.
const notStarted = 127

func run() error {
	if err := mounts(); err != nil {
		return err
	}
	out, err := openOutput()
	if err != nil {
		return err
	}
	status := notStarted
	if err := prepare(); err != nil {
		_, _ = fmt.Fprintln(out, "init:", err)
	} else {
		status = work(out)
	}
	if _, err := out.WriteString(job.Ended(status)); err != nil {
		return err
	}
	return unix.IoctlSetInt(int(out.Fd()), unix.TCSBRK, 1) // wait until it is out
}

func mounts() error {
	for _, m := range []struct{ target, fsType, data string }{
		{"/proc", "proc", ""},
		{"/sys", "sysfs", ""},
		{"/dev", "devtmpfs", ""},
		{"/tmp", "tmpfs", "mode=1777"},
		{"/run", "tmpfs", "mode=755"},
	} {
		if err := unix.Mount(m.fsType, m.target, m.fsType, 0, m.data); err != nil {
			return &os.PathError{Op: "mount", Path: m.target, Err: err}
		}
	}
	for link, target := range map[string]string{
		"/dev/fd": "/proc/self/fd", "/dev/stdin": "fd/0", "/dev/stdout": "fd/1", "/dev/stderr": "fd/2",
	} {
		if err := os.Symlink(target, link); err != nil {
			return err
		}
	}
	return nil
}

// openOutput opens the second serial line, on which nothing is changed on its way.
func openOutput() (*os.File, error) {
	out, err := os.OpenFile("/dev/ttyS1", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	settings, err := unix.IoctlGetTermios(int(out.Fd()), unix.TCGETS)
	if err != nil {
		return nil, err
	}
	settings.Oflag &^= unix.OPOST
	settings.Lflag &^= unix.ECHO | unix.ICANON | unix.ISIG
	return out, unix.IoctlSetTermios(int(out.Fd()), unix.TCSETS, settings)
}

// prepare makes what is not there by itself: modules, the names of the disks, the loopback interface.
func prepare() error {
	modules, err := filepath.Glob("/vm/modules/*.ko")
	if err != nil {
		return err
	}
	for _, module := range modules { // in the order of their names
		if err := load(module); err != nil {
			return err
		}
	}
	serials, err := filepath.Glob("/sys/block/*/serial")
	if err != nil {
		return err
	}
	if err := os.MkdirAll("/dev/disk", 0o755); err != nil {
		return err
	}
	for _, serial := range serials {
		name, err := os.ReadFile(serial)
		if err != nil {
			return err
		}
		device := strings.Split(serial, "/")[3]
		if err := os.Symlink("/dev/"+device, "/dev/disk/"+strings.TrimSpace(string(name))); err != nil {
			return err
		}
	}
	return loopback()
}

func load(module string) error {
	file, err := os.Open(module)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if err := unix.FinitModule(int(file.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return &os.PathError{Op: "load the module", Path: module, Err: err}
	}
	return nil
}

func loopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	return os.NewSyscallError("ioctl", unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request))
}

// work runs the job and returns the exit status.
func work(out *os.File) int {
	status, err := start(out)
	if err != nil {
		_, _ = fmt.Fprintln(out, "init:", err)
	}
	return status
}

func start(out *os.File) (int, error) {
	content, err := os.ReadFile(job.File)
	if err != nil {
		return notStarted, err
	}
	var j job.Job
	if err := json.Unmarshal(content, &j); err != nil {
		return notStarted, err
	}
	if err := os.MkdirAll("/vm/empty", 0o755); err != nil {
		return notStarted, err
	}
	cmd := exec.Command(j.Program, j.Args...)
	cmd.Dir = "/vm/empty"
	cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin", "HOME=/root", "LC_ALL=C"}, j.Env...)
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode(), nil
	case errors.As(err, &exit):
		return 128, err // a signal
	}
	return notStarted, err
}
