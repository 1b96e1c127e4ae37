// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"io"
	"slices"
	"strings"
	"time"
)

// options are the flags of all commands; each command has some of them.
type options struct {
	words   []string // what is no flag
	files   list
	pods    list
	all     bool
	claims  bool // their volumes are to be deleted
	limits  bool // of emptyDirs on disk are enforced by the kernel
	root    string
	output  string
	listen  string
	onDisk  bool // the content of config maps, secrets and the like
	timeout time.Duration
}

// list is a flag that can be repeated.
type list []string

func (l *list) String() string { return strings.Join(*l, " ") }

func (l *list) Set(value string) error {
	*l = append(*l, value)
	return nil
}

// defaultTimeout is how long a command may take; the kubelet gives a pod's volumes about as long.
const defaultTimeout = 2 * time.Minute

// parse reads the flags that the command has.
func parse(command string, args []string, have ...string) (*options, error) {
	var o options
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.root, "root", "", "")
	flags.BoolVar(&o.onDisk, "content-on-disk", false, "")
	flags.DurationVar(&o.timeout, "timeout", defaultTimeout, "")
	for _, name := range have {
		switch name {
		case "f":
			flags.Var(&o.files, "f", "")
		case "pod":
			flags.Var(&o.pods, "pod", "")
		case "all":
			flags.BoolVar(&o.all, "all", false, "")
		case "hard-limits":
			flags.BoolVar(&o.limits, "hard-limits", false, "")
		case "claims":
			flags.BoolVar(&o.claims, "claims", false, "")
		case "listen":
			flags.StringVar(&o.listen, "listen", defaultListen, "")
		case "o":
			flags.StringVar(&o.output, "o", "", "")
		}
	}
	for {
		if err := flags.Parse(args); err != nil {
			if err == flag.ErrHelp {
				return nil, err
			}
			return nil, &usageError{err}
		}
		if flags.NArg() == 0 || !slices.Contains(have, "words") {
			break
		}
		o.words, args = append(o.words, flags.Arg(0)), flags.Args()[1:]
	}
	switch {
	case flags.NArg() > 0:
		return nil, misuse("unexpected argument %q: files are given with -f", flags.Arg(0))
	case o.output != "" && o.output != "json":
		return nil, misuse("-o %q: the only output format to choose is json", o.output)
	case o.timeout <= 0:
		return nil, misuse("-timeout %s is not positive", o.timeout)
	}
	return &o, nil
}

// limit returns a context that ends after the timeout.
func (o *options) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, o.timeout, &timeoutError{o.timeout})
}

// timeoutError says how to wait longer.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string {
	return "gave up after " + e.after.String() + " (-timeout)"
}

func (e *timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }
