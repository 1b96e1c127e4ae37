// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"fmt"
	"regexp"
)

// MakeOptions say what file system [Make] makes.
type MakeOptions struct {
	// Type is ext4, xfs or btrfs; ext3 and ext2 too.
	Type string

	// UUID is that of the file system, in the usual form. Empty stands for a random one.
	UUID string

	// Again says that the caller knows, by a record of its own, of a call with the same UUID that was interrupted: what that has
	// left, see [Content.IsLeftOf], is overwritten. A file system that was finished is not, nor is what does not name the UUID.
	Again bool

	// Label is its label: of at most 16 bytes for ext, 12 for xfs, 255 for btrfs. Empty stands for none.
	Label string

	// Options are further arguments of mkfs, which come before the device. See [CheckOptions].
	Options []string
}

// maker is what is known of the mkfs of one type.
type maker struct {
	program string
	uuid    func(string) []string
	label   string // the option
	longest int    // label, in bytes

	// always are the first arguments. None of the programs discards what is on the device: an image that is allocated stays so,
	// and should the proof that nothing is there be wrong, it is not for us to destroy what is beyond the file system's own blocks.
	always []string

	options grammar
}

var makers = map[string]maker{
	"ext2": extMaker("mkfs.ext2"),
	"ext3": extMaker("mkfs.ext3"),
	"ext4": extMaker("mkfs.ext4"),
	"xfs": {
		program: "mkfs.xfs",
		uuid:    func(uuid string) []string { return []string{"-m", "uuid=" + uuid} },
		label:   "-L", longest: 12,
		always:  []string{"-q", "-K"},
		options: xfsGrammar,
	},
	"btrfs": {
		program: "mkfs.btrfs",
		uuid:    func(uuid string) []string { return []string{"-U", uuid} },
		label:   "-L", longest: 255,
		always:  []string{"-q", "-K"},
		options: btrfsGrammar,
	},
}

func extMaker(program string) maker {
	return maker{
		program: program,
		uuid:    func(uuid string) []string { return []string{"-U", uuid} },
		label:   "-L", longest: 16,
		always:  []string{"-q", "-m", "0"}, // nothing is kept for root, as Kubernetes has it
		options: extGrammar,
	}
}

var uuidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$`)

// arguments returns the program and its arguments, without the device.
func (o MakeOptions) arguments() (program string, args []string, err error) {
	if err := CheckOptions(o.Type, o.Options); err != nil {
		return "", nil, err
	}
	m := makers[o.Type]
	args = append(args, m.always...)
	if o.UUID != "" {
		if !uuidForm.MatchString(o.UUID) {
			return "", nil, invalid("%q is not a UUID", o.UUID)
		}
		args = append(args, m.uuid(o.UUID)...)
	}
	if o.Label != "" {
		if len(o.Label) > m.longest {
			return "", nil, invalid("the label %q is longer than the %d bytes that an %s can have", o.Label, m.longest, o.Type)
		}
		args = append(args, m.label, o.Label)
	}
	return m.program, append(args, m.options.arrange(o.Options)...), nil
}

func invalid(format string, args ...any) error {
	return &kindError{ErrInvalid, fmt.Errorf(format, args...)}
}
