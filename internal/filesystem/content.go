// SPDX-License-Identifier: Apache-2.0

package filesystem

import "errors"

// Content is what is on a device.
type Content struct {
	// Blank says that it was proved that there is nothing: everything that had to be read could be read, and is zero.
	Blank bool

	// Type is the type of the file system, as the kernel names it: "ext4", "xfs", "btrfs", "vfat". Of what is no file system
	// that can be mounted it says in words what it is: "LVM2 physical volume", "GPT partition table", "LUKS", "swap",
	// "data of unknown kind at offset 4096". It is empty if Blank is true.
	Type string

	// IsFileSystem says that Type is a file system, made to its end.
	IsFileSystem bool

	// UUID is that of the file system, in lower case with dashes, and Label its label. They are empty where they are not
	// known: of types other than ext2 to ext4, xfs, btrfs and f2fs.
	UUID, Label string
}

// The kinds of error that a caller may act upon.
var (
	// ErrNotBlank is matched by the error of [Make] on a device that is not proved to be blank.
	ErrNotBlank = errors.New("not blank")

	// ErrInvalid is matched by an error about arguments: repeating is useless until they change.
	ErrInvalid = errors.New("invalid")

	// ErrNeedsRepair is matched by the error of [Check] about damage that a person has to look at.
	ErrNeedsRepair = errors.New("the file system has to be repaired by hand")

	// ErrInUse is matched by an error about a device that somebody else works on.
	ErrInUse = errors.New("in use")

	// ErrNeedsMount is matched by the error of [Grow] about a file system that grows only while it is mounted.
	ErrNeedsMount = errors.New("the file system can be grown only while it is mounted")
)

// kindError is an error of one of the kinds above that does not show in its text.
type kindError struct {
	kind, err error
}

func (e *kindError) Error() string        { return e.err.Error() }
func (e *kindError) Unwrap() error        { return e.err }
func (e *kindError) Is(target error) bool { return target == e.kind }
