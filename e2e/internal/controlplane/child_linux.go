// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// child is a program that runs until it is killed, or the test's process ends.
type child struct {
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
	err   error // once ended is closed
}

// run starts a program, whose output is appended to the file log.
func run(program, log string, args ...string) (*child, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	c := &child{cmd: exec.Command(program, args...), log: log, ended: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = out, out
	c.cmd.Env = append(os.Environ(), "HTTP_PROXY=", "HTTPS_PROXY=", "http_proxy=", "https_proxy=", "NO_PROXY=*")
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The kernel sends Pdeathsig when the thread ends that started the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.err = c.cmd.Wait()
			close(c.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return c, nil
}

// kill ends the program and waits for its end.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.ended
}

// tail is the end of the log.
func (c *child) tail() string {
	content, _ := os.ReadFile(c.log)
	return string(content[max(0, len(content)-4096):])
}
