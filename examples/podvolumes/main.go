// SPDX-License-Identifier: Apache-2.0

// Command podvolumes gives the pods of Kubernetes manifests their volumes on this machine, shows them, and takes them away.
// Its README says how it is used.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/plugins"
	"github.com/volumekit/volumekit/projected"
	"github.com/volumekit/volumekit/volume"
)

const usage = `podvolumes gives the pods of Kubernetes manifests their volumes on this machine.

usage:
  podvolumes up -f FILE [-f FILE]... [-hard-limits] [-o json] [-root DIR] [-timeout DURATION]
      set up every volume of every pod, and show where it is; with -hard-limits the kernel enforces the sizeLimit of emptyDirs
      on disk
  podvolumes status [-o json] [-root DIR] [-timeout DURATION]
      show what is set up, with the sizes used and the limits
  podvolumes down (-f FILE... | -pod NAMESPACE/NAME... | -all) [-claims] [-root DIR] [-timeout DURATION]
      take the volumes away; with -claims, delete what was provisioned for claims, too, unless its reclaim policy is Retain
  podvolumes exec NAMESPACE/POD CONTAINER [-root DIR] [-timeout DURATION] -- COMMAND [ARGUMENT]...
      run a command that sees a container's mounts, and the host's programs (Linux only)
  podvolumes run -f DIR [-hard-limits] [-listen ADDRESS:PORT] [-root DIR] [-timeout DURATION]
      do what up and down do for the manifests in a directory, as they come, change and go, until it is interrupted;
      what goes on is shown at http://ADDRESS:PORT/, a loopback address (127.0.0.1:9808); here DURATION is for one volume

A command gives up after DURATION, 2m unless you say otherwise; run it again and it goes on.
FILE is YAML or JSON, a directory of such files, or "-" for standard input; -f and -pod can be repeated.
The manifests may hold ConfigMaps, Secrets, ServiceAccounts, PersistentVolumes, PersistentVolumeClaims and StorageClasses beside
the pods. A claim whose class has the provisioner volumekit.io/blockdev or volumekit.io/hostpath is given a volume, for ever. What
volumes hold of them is kept in memory, which needs root. With -content-on-disk, which every command takes, it is kept in
directories: then secrets and tokens stay on the disk, even after the volumes are gone.
DIR is where everything is kept; by default /var/lib/podvolumes, and for an ordinary user
podvolumes in $XDG_STATE_HOME (~/.local/state).

exit status: 0 all well, 1 something was not served, 2 wrong use or unreadable input; that of exec is its command's, 128 and
the signal that killed it, 127 if it is not found, 126 if it cannot be executed
`

// The exit statuses.
const (
	allWell   = 0
	notServed = 1
	wrongUse  = 2
)

func main() {
	if startedInNamespace(os.Args) {
		os.Exit(becomeCommand())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr})
	stop()
	os.Exit(status)
}

// streams are the standard streams of a run.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// complain writes one line to standard error, whatever the error's text.
func (s streams) complain(format string, args ...any) {
	_, _ = fmt.Fprintln(s.err, oneLine(fmt.Sprintf(format, args...)))
}

func run(ctx context.Context, args []string, s streams) int {
	if len(args) == 0 {
		_, _ = io.WriteString(s.err, usage)
		return wrongUse
	}
	commands := map[string]func(context.Context, []string, streams) error{"up": up, "status": status, "down": down, "exec": execInContainer, "run": runManager}
	command, found := commands[args[0]]
	switch {
	case found:
	case args[0] == "help" || args[0] == "-h" || args[0] == "-help" || args[0] == "--help":
		_, _ = io.WriteString(s.out, usage)
		return allWell
	default:
		s.complain("podvolumes: unknown command %q: there are up, status, down, exec and run", args[0])
		return wrongUse
	}
	err := command(ctx, args[1:], s)
	var misuse *usageError
	var status exitStatus
	switch {
	case err == nil:
		return allWell
	case errors.Is(err, flag.ErrHelp):
		_, _ = io.WriteString(s.out, usage)
		return allWell
	case errors.As(err, &misuse):
		s.complain("podvolumes %s: %v", args[0], err)
		return wrongUse
	case errors.Is(err, errUnreadable):
		return wrongUse
	case errors.As(err, &status):
		if err != status { // it did not start
			s.complain("podvolumes %s: %v", args[0], err)
		}
		return int(status)
	case !errors.Is(err, errNotServed):
		s.complain("podvolumes %s: %v", args[0], err)
	}
	return notServed
}

// What is behind these two has been written to standard error already.
var (
	errNotServed  = errors.New("something was not served")
	errUnreadable = errors.New("unreadable input")
)

// usageError is about the words of the command line.
type usageError struct{ error }

func misuse(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// openPlugins returns the manager of the built-in plugins for the root directory.
func openPlugins(ctx context.Context, o *options, host volume.Host) (*volume.VolumePluginMgr, error) {
	root := o.root
	if root == "" {
		var err error
		if root, err = defaultRoot(); err != nil {
			return nil, err
		}
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	host.Root = root
	all := plugins.Default()
	if o.limits {
		all = slices.DeleteFunc(all, func(p volume.VolumePlugin) bool { _, is := p.(*emptydir.Plugin); return is })
		all = append(all, emptydir.New(emptydir.Options{HardLimits: true}))
	}
	if o.onDisk {
		all = slices.DeleteFunc(all, func(p volume.VolumePlugin) bool { return isProjected(p) })
		all = append(all, projected.New(projected.Options{OnDisk: true})...)
	}
	return volume.NewVolumePluginMgr(ctx, host, all)
}

func isProjected(p volume.VolumePlugin) bool {
	_, is := p.(*projected.Plugin)
	return is
}

// isContent reports whether a plugin of this name keeps the content of objects.
func isContent(plugin string) bool {
	return slices.ContainsFunc(projected.New(projected.Options{}), func(p volume.VolumePlugin) bool { return p.Name() == plugin })
}

func defaultRoot() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/lib/podvolumes", nil
	}
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "podvolumes"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", misuse("there is no default root directory: %w: give one with -root", err)
	}
	return filepath.Join(home, ".local", "state", "podvolumes"), nil
}

// oneLine makes one line of a text that may have several, as joined errors do, and leaves no control characters in it.
func oneLine(text string) string {
	text = strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}
