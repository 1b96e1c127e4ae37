// SPDX-License-Identifier: Apache-2.0

package mounter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/internal/program"
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

// helperOutput is how many bytes of a helper program's output go into an error.
const helperOutput = 4096

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
	cmd := program.Command{
		Name: path,
		Args: args,
		// So much more than what is shown that no sensitive option is cut where it could not be recognised.
		Head: helperOutput + len(opts.helperList()),
	}
	if output, err := cmd.Run(context.Background()); err != nil {
		var exited *program.ExitError
		if !errors.As(err, &exited) {
			return err
		}
		said := strings.TrimSpace(opts.mask(string(output), helperOutput))
		if said == "" {
			said = "no output"
		}
		// Not %w of the whole: its text has the output with the sensitive options.
		return fmt.Errorf("%s: %w: %s", path, exited.Err, said)
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
