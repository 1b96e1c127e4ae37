// SPDX-License-Identifier: Apache-2.0

package mounter

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// fsContext is a file system that is being configured, see fsopen(2).
type fsContext struct {
	fd   int
	opts *options // to be kept out of errors where they are sensitive
}

// maxValue is how long a value can be for fsconfig, which mount(2) takes up to a page of: strndup_user in fs/fsopen.c.
const maxValue = 255

func (o *options) fitsFsconfig() bool {
	return !slices.ContainsFunc(o.all, func(p option) bool { return len(p.key) > maxValue || len(p.value) > maxValue })
}

func (fc fsContext) set(p option) error {
	var err error
	if p.isFlag {
		err = unix.FsconfigSetFlag(fc.fd, p.key)
	} else {
		err = unix.FsconfigSetString(fc.fd, p.key, p.value)
	}
	if err != nil {
		return fc.explain(fmt.Sprintf("option %q", p), err)
	}
	return nil
}

// explain adds to err the messages that the kernel left in the context.
func (fc fsContext) explain(doing string, err error) error {
	err = fmt.Errorf("%s: %w", doing, err)
	if messages := fc.messages(); len(messages) > 0 {
		said := strings.Join(messages, "; ")
		return fmt.Errorf("%w (the kernel: %s)", err, fc.opts.mask(said, len(said)))
	}
	return err
}

// messages returns the errors and warnings. Each read gives one, behind a letter for its kind and a space.
func (fc fsContext) messages() []string {
	var messages []string
	buffer := make([]byte, os.Getpagesize())
	for {
		n, err := unix.Read(fc.fd, buffer)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 { // ENODATA after the last
			return messages
		}
		kind, text, ok := strings.Cut(strings.TrimSpace(string(buffer[:n])), " ")
		if ok && (kind == "e" || kind == "w") {
			messages = append(messages, text)
		}
	}
}
