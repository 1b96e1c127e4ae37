// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"errors"
	"fmt"
	"strings"
)

// The kinds of error that a caller acts upon: errors.Is(err, volume.ErrUncertain). An error of no kind is final: the
// operation failed and had no effect that matters.
var (
	// ErrUncertain is an error that leaves the outcome open, such as a timeout: the volume counts as possibly set up,
	// attached or created until a later answer says otherwise.
	ErrUncertain = errors.New("outcome uncertain")

	// ErrNotFound is about a plugin, a volume or an object that does not exist.
	ErrNotFound = errors.New("not found")

	// ErrNotSupported is about a source, a field or a capability that nothing here serves.
	ErrNotSupported = errors.New("not supported")

	// ErrInUse is about something that has to be let go of first.
	ErrInUse = errors.New("in use")

	// ErrExhausted is about space, inodes, devices or another resource that has run out.
	ErrExhausted = errors.New("exhausted")

	// ErrInvalid is about input that has to be changed before repeating makes sense.
	ErrInvalid = errors.New("invalid")
)

// Errorf is fmt.Errorf for an error that errors.Is also finds to be of the given kind, one of those above. The kind does
// not show in the text.
func Errorf(kind error, format string, args ...any) error {
	return &kindError{kind: kind, err: fmt.Errorf(format, args...)}
}

type kindError struct {
	kind, err error
}

func (e *kindError) Error() string        { return e.err.Error() }
func (e *kindError) Unwrap() error        { return e.err }
func (e *kindError) Is(target error) bool { return target == e.kind }

// Error says what failed and on what. The packages that drive plugins wrap a plugin's error once with what they know.
type Error struct {
	// Op is what was being done: "set up", "tear down".
	Op string

	// Volume is the volume's name in the pod, or the PersistentVolume's.
	Volume string

	// Pod is the pod as namespace/name, or its UID where no more is known; empty if no pod is concerned.
	Pod string

	// Plugin is the plugin's name, empty if none was found.
	Plugin string

	// Path is where the volume is or should be, empty if it has no place yet.
	Path string

	// Err is what went wrong. Never nil.
	Err error
}

// Error names the operation, the volume, the pod, the plugin and the path as far as they are known, then the cause.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Volume != "" {
		fmt.Fprintf(&b, " volume %q", e.Volume)
	}
	if e.Pod != "" {
		fmt.Fprintf(&b, " of pod %s", e.Pod)
	}
	switch {
	case e.Plugin != "" && e.Path != "":
		fmt.Fprintf(&b, " (%s at %s)", e.Plugin, e.Path)
	case e.Plugin != "":
		fmt.Fprintf(&b, " (%s)", e.Plugin)
	case e.Path != "":
		fmt.Fprintf(&b, " (at %s)", e.Path)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
