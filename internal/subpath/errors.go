// SPDX-License-Identifier: Apache-2.0

package subpath

import (
	"errors"
	"fmt"
)

// What a caller can tell apart, with errors.Is. An error that matches neither comes from the system, and matches what
// os.IsNotExist and its like are asked for.
var (
	// ErrInvalid is about a subPath that cannot name anything: empty, absolute, with "..", below what is no directory.
	ErrInvalid = errors.New("not a path in a volume")

	// ErrOutside is about a subPath that a symbolic link leads out of the volume.
	ErrOutside = errors.New("outside the volume")
)

// refusal is an error of one of the kinds above; the text does not repeat the kind.
type refusal struct {
	kind error
	text string
}

func refuse(kind error, format string, args ...any) error {
	return &refusal{kind: kind, text: fmt.Sprintf(format, args...)}
}

func (r *refusal) Error() string        { return r.text }
func (r *refusal) Is(target error) bool { return target == r.kind }
