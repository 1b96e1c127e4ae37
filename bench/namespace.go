// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// inNamespace marks the environment of the child that enterMountNamespace starts.
const inNamespace = "VOLUMEKIT_BENCH_IN_NAMESPACE"

// enterMountNamespace runs the program again in a mount namespace of its own, with private propagation, and exits with
// its status; in that second run it returns. A thread of a running Go program can change its namespace, the program cannot.
func enterMountNamespace() {
	if os.Getenv(inNamespace) != "" {
		return
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Unshareflags: syscall.CLONE_NEWNS}
	if uid := os.Geteuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	}
	fmt.Fprintf(os.Stderr, "make a mount namespace: %v (run it as root, or allow user namespaces)\n", err)
	os.Exit(1)
}
