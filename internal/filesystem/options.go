// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"slices"
	"strings"
)

// CheckOptions says whether Make accepts the type and the further arguments of mkfs. What is known to be harmless is accepted;
// the error, which matches [ErrInvalid], names the argument that is not: one that forces, that names another file or device, that
// has mkfs do something else than make a file system, whose value is missing, or that is no option at all.
func CheckOptions(fsType string, options []string) error {
	m, ok := makers[fsType]
	if !ok {
		return invalid("file systems of the type %q are not made here; supported are ext4, ext3, ext2, xfs and btrfs", fsType)
	}
	if _, err := m.options.parse(options); err != nil {
		return invalid("option of %s: %w", m.program, err)
	}
	return nil
}

// grammar is what is known of the options of one mkfs.
type grammar struct {
	// accepted are the options, without their dashes: those of one letter, and the longer ones.
	accepted map[string]option

	// refused says why, for options that somebody may well try.
	refused map[string]string

	// gather is the option of which mkfs knows the last one only, so that its values are put together behind first.
	gather, first string
}

type option struct {
	value bool // it has one

	// forbidden are what the value, a list with commas, must not have: the names, and why.
	forbidden map[string]string
}

var (
	flag   = option{}
	valued = option{value: true}
)

const (
	forces    = "nothing is ever forced"
	elsewhere = "it names another file or device"
	ownUUID   = "each file system has a UUID of its own"
	noMaking  = "it makes no file system"
)

var extGrammar = grammar{
	accepted: map[string]option{
		"b": valued, "C": valued, "D": flag, "e": valued, "g": valued, "G": valued, "i": valued, "I": valued, "j": flag, "K": flag,
		"L": valued, "m": valued, "N": valued, "q": flag, "T": valued, "v": flag,
		"E": {value: true, forbidden: map[string]string{
			"offset": "the file system has to begin where the device does",
		}},
		"J": {value: true, forbidden: map[string]string{"device": elsewhere}},
		"O": {value: true, forbidden: map[string]string{"journal_dev": noMaking}},
	},
	refused: map[string]string{
		"F": forces, "d": elsewhere, "l": elsewhere, "z": elsewhere, "U": ownUUID, "n": noMaking, "S": noMaking, "V": noMaking,
		"t": "the type is given already", "c": "a search for bad blocks can take days",
	},
	gather: "E", first: "nodiscard",
}

var xfsGrammar = grammar{
	accepted: map[string]option{
		"b": valued, "i": valued, "K": flag, "L": valued, "n": valued, "q": flag, "s": valued,
		"d": {value: true, forbidden: map[string]string{"name": elsewhere, "file": elsewhere}},
		"l": {value: true, forbidden: map[string]string{"logdev": elsewhere, "name": elsewhere, "file": elsewhere}},
		"m": {value: true, forbidden: map[string]string{"uuid": ownUUID}},
		"r": {value: true, forbidden: map[string]string{"rtdev": elsewhere, "name": elsewhere, "file": elsewhere}},
	},
	refused: map[string]string{
		"f": forces, "C": forces, "p": elsewhere, "c": elsewhere, "N": noMaking, "V": noMaking,
	},
}

var btrfsGrammar = grammar{
	accepted: map[string]option{
		"b": valued, "d": valued, "K": flag, "L": valued, "m": valued, "M": flag, "n": valued, "O": btrfsFeatures, "q": flag, "R": btrfsFeatures,
		"s": valued, "v": flag,
		"byte-count": valued, "checksum": valued, "csum": valued, "data": valued, "features": btrfsFeatures, "label": valued, "metadata": valued,
		"mixed": flag, "nodesize": valued, "nodiscard": flag, "quiet": flag, "runtime-features": btrfsFeatures, "sectorsize": valued,
		"verbose": flag,
	},
	refused: map[string]string{
		"f": forces, "force": forces, "r": elsewhere, "rootdir": elsewhere, "U": ownUUID, "uuid": ownUUID, "device-uuid": ownUUID,
		"V": noMaking, "version": noMaking, "help": noMaking,
	},
}

var btrfsFeatures = option{value: true, forbidden: map[string]string{"list-all": noMaking}}

// argument is one option as it was given.
type argument struct {
	name, value string
	hasValue    bool
}

// parse reads the options as getopt_long(3) does, but knows no abbreviations.
func (g grammar) parse(options []string) ([]argument, error) {
	var all []argument
	for len(options) > 0 {
		text := options[0]
		options = options[1:]
		switch {
		case strings.ContainsRune(text, 0):
			return nil, invalid("%q holds a zero byte", text)
		case text == "--" || len(text) < 2 || text[0] != '-':
			return nil, invalid("%q is not an option", text)
		case strings.HasPrefix(text, "--"):
			name, value, attached := strings.Cut(text[2:], "=")
			a, err := g.lookUp("--"+name, name, value, attached, &options)
			if err != nil {
				return nil, err
			}
			all = append(all, a)
			continue
		}
		for rest := text[1:]; rest != ""; {
			name := rest[:1]
			rest = rest[1:]
			attached := rest != "" && g.accepted[name].value
			a, err := g.lookUp("-"+name, name, rest, attached, &options)
			if err != nil {
				return nil, err
			}
			all = append(all, a)
			if attached {
				break
			}
		}
	}
	return all, nil
}

// lookUp checks one option, and takes its value from what follows if it is not attached.
func (g grammar) lookUp(shown, name, value string, attached bool, rest *[]string) (argument, error) {
	if why, ok := g.refused[name]; ok {
		return argument{}, invalid("%s is refused: %s", shown, why)
	}
	o, ok := g.accepted[name]
	switch {
	case !ok:
		return argument{}, invalid("%s is not one of those that are known to be safe", shown)
	case !o.value && attached:
		return argument{}, invalid("%s has no value", shown)
	case !o.value:
		return argument{name: name}, nil
	case !attached && len(*rest) == 0:
		return argument{}, invalid("%s has no value", shown) // the device would be taken for it
	case !attached:
		value, *rest = (*rest)[0], (*rest)[1:]
	}
	if strings.ContainsRune(value, 0) {
		return argument{}, invalid("the value of %s holds a zero byte", shown)
	}
	for item := range strings.SplitSeq(value, ",") {
		key, _, _ := strings.Cut(item, "=")
		if why, ok := o.forbidden[strings.TrimSpace(key)]; ok {
			return argument{}, invalid("%s %s is refused: %s", shown, key, why)
		}
	}
	return argument{name: name, value: value, hasValue: true}, nil
}

// arrange returns the arguments for mkfs. The options have been checked.
func (g grammar) arrange(options []string) []string {
	all, err := g.parse(options)
	if err != nil {
		panic(err) // they have not
	}
	gathered := []string{g.first}
	var args []string
	for _, a := range all {
		switch {
		case g.gather != "" && a.name == g.gather:
			gathered = append(gathered, a.value)
		case len(a.name) == 1 && a.hasValue:
			args = append(args, "-"+a.name, a.value)
		case len(a.name) == 1:
			args = append(args, "-"+a.name)
		case a.hasValue:
			args = append(args, "--"+a.name+"="+a.value)
		default:
			args = append(args, "--"+a.name)
		}
	}
	if g.gather != "" {
		args = slices.Concat([]string{"-" + g.gather, strings.Join(gathered, ",")}, args)
	}
	return args
}
