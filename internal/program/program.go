// SPDX-License-Identifier: Apache-2.0

// Package program runs programs such as mkfs and mount helpers: without a shell, in a process group of their own that is killed
// as a whole when nobody waits any longer, and with an output of which no more is kept than an error can show.
package program

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/utils/exec"
)

// ErrNotFound is matched by the error about a program that is not installed.
var ErrNotFound = errors.New("program not found")

// ExitError is about a program that ended with another status than 0, or was ended by a signal that did not come from [Run].
type ExitError struct {
	// Program is the program as it was called, by its path if that is known.
	Program string

	// Code is the exit status, -1 after a signal.
	Code int

	// Output is what the program wrote to its standard output and its standard error, cut as for [Command].
	Output string

	// Err is what the operating system said of the end: an [os/exec.ExitError] unless an embedder's runner was used. Its text
	// is "exit status 1", "signal: killed" or the like.
	Err error
}

// Error has the program, the status and the output, trimmed.
func (e *ExitError) Error() string {
	said := strings.TrimSpace(e.Output)
	if said == "" {
		said = "no output"
	}
	return fmt.Sprintf("%s: %v: %s", e.Program, e.Err, said)
}

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }

// Command is a program to be run, and how.
type Command struct {
	// Exec runs the program. Nil and the default of k8s.io/utils/exec stand for this package's own way, which has a process
	// group and bounds what is kept of the output while it comes. Another one is an embedder's or a test's.
	Exec exec.Interface

	// Name is the name of the program, looked for in PATH and where the system's programs are, or its path.
	Name string
	Args []string

	// Head and Tail are how many bytes are kept from the beginning and the end of the output; 16 KiB each if both are 0.
	Head, Tail int

	// Hold are open files that the program inherits, as its descriptors 3 and up, so that a lock on them is held as long as
	// the program runs, even if this process ends first. An Exec of an embedder's does not know them.
	Hold []*os.File
}

// defaultKept is the default of Head and Tail.
const defaultKept = 16 << 10

// packages are the names under which Debian has the programs that this module runs.
var packages = map[string]string{
	"mkfs.ext4":  "e2fsprogs",
	"mkfs.ext3":  "e2fsprogs",
	"mkfs.ext2":  "e2fsprogs",
	"mke2fs":     "e2fsprogs",
	"e2fsck":     "e2fsprogs",
	"resize2fs":  "e2fsprogs",
	"mkfs.xfs":   "xfsprogs",
	"xfs_growfs": "xfsprogs",
	"xfs_repair": "xfsprogs",
	"mkfs.btrfs": "btrfs-progs",
	"btrfs":      "btrfs-progs",
}

// notFound is the error about a program that is nowhere.
func notFound(name string) error {
	if pkg, ok := packages[name]; ok {
		return fmt.Errorf("%w: %s (in Debian it comes with the package %s)", ErrNotFound, name, pkg)
	}
	return fmt.Errorf("%w: %s", ErrNotFound, name)
}
