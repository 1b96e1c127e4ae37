// SPDX-License-Identifier: Apache-2.0

package mounter

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// findHelper returns the program that mounts this type of file system. For "fuse.sshfs" that is mount.fuse.sshfs or else
// mount.fuse.
func (m *Mounter) findHelper(fstype string) (path string, found bool) {
	names := []string{"mount." + fstype}
	if base, _, ok := strings.Cut(fstype, "."); ok {
		names = append(names, "mount."+base)
	}
	for _, name := range names {
		for _, dir := range m.helperDirs {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				return path, true
			}
		}
	}
	return "", false
}

const (
	// helperOutput is how many bytes of a helper program's output go into an error.
	helperOutput = 4096
	// helperLinger is how long output is awaited of a helper program that has ended, but has left a daemon that holds
	// the pipe.
	helperLinger = 200 * time.Millisecond
)

// runHelper runs a helper program with the arguments of mount(8), see there under "External helpers".
func runHelper(path, source, target, fstype string, opts *options) error {
	if source == "" {
		source = "none"
	}
	args := []string{source, target}
	if list := opts.helperList(); list != "" {
		args = append(args, "-o", list)
	}
	if strings.Contains(fstype, ".") {
		args = append(args, "-t", fstype)
	}
	// So much more than what is shown that no sensitive option is cut where it could not be recognised.
	output := head{limit: helperOutput + len(opts.helperList())}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.WaitDelay = helperLinger
	// Out of reach of the terminal's Ctrl-C: an interrupted mount leaves nobody knows what.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		said := strings.TrimSpace(opts.mask(string(output.bytes), helperOutput))
		if said == "" {
			said = "no output"
		}
		return fmt.Errorf("%s: %w: %s", path, err, said)
	}
	if len(opts.propagation) == 0 {
		return nil
	}
	if err := propagate(target, opts); err != nil {
		return errors.Join(err, undoMount2(target))
	}
	return nil
}

// helperList returns the options that a helper program gets: those that no other call applies.
func (o *options) helperList() string {
	var texts []string
	for _, p := range o.all {
		if _, ok := propagations[p.text]; !ok {
			texts = append(texts, p.text)
		}
	}
	return strings.Join(texts, ",")
}

// head keeps the beginning of what is written.
type head struct {
	limit int
	bytes []byte
}

func (h *head) Write(p []byte) (int, error) {
	h.bytes = append(h.bytes, p[:min(len(p), h.limit-len(h.bytes))]...)
	return len(p), nil
}
