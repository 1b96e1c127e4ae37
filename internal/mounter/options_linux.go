// SPDX-License-Identifier: Apache-2.0

package mounter

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// options are mount options, parsed.
type options struct {
	bind, recursive, remount bool

	attrSet, attrClear uint64  // MOUNT_ATTR_ flags of the mount, for fsmount and mount_setattr
	flagSet, flagClear uintptr // MS_ flags, of the mount and of the file system, for mount(2)
	propagation        []propagation

	all []option // in the order in which they were given, without those that are ignored
}

// option is one option as it was given.
type option struct {
	text       string // "key", "key=value" or "key="value""
	key, value string // value without the quotes that enclose it
	isFlag     bool   // there is no "="
	secret     bool
	scope      scope
}

// scope is what an option is about.
type scope int

const (
	ofMount      scope = iota // the mount, or how it is made
	ofFilesystem              // the file system, of whatever type; "ro" and "rw" are about the mount too
	ofType                    // a parameter of this type of file system
)

// propagation is a propagation type, see mount_namespaces(7).
type propagation struct {
	flag      uintptr // MS_SHARED, …
	recursive bool
}

// masked stands in for a sensitive option.
const masked = "<masked>"

// known are the options that do not depend on the type of file system: flags to set and to clear, of the mount (attr) and
// as mount(2) has them, for mount and file system together (flag).
var known = map[string]struct {
	attrSet, attrClear uint64
	flagSet, flagClear uintptr
	scope              scope
}{
	"ro":          {attrSet: unix.MOUNT_ATTR_RDONLY, flagSet: unix.MS_RDONLY, scope: ofFilesystem},
	"rw":          {attrClear: unix.MOUNT_ATTR_RDONLY, flagClear: unix.MS_RDONLY, scope: ofFilesystem},
	"nosuid":      {attrSet: unix.MOUNT_ATTR_NOSUID, flagSet: unix.MS_NOSUID},
	"suid":        {attrClear: unix.MOUNT_ATTR_NOSUID, flagClear: unix.MS_NOSUID},
	"nodev":       {attrSet: unix.MOUNT_ATTR_NODEV, flagSet: unix.MS_NODEV},
	"dev":         {attrClear: unix.MOUNT_ATTR_NODEV, flagClear: unix.MS_NODEV},
	"noexec":      {attrSet: unix.MOUNT_ATTR_NOEXEC, flagSet: unix.MS_NOEXEC},
	"exec":        {attrClear: unix.MOUNT_ATTR_NOEXEC, flagClear: unix.MS_NOEXEC},
	"nodiratime":  {attrSet: unix.MOUNT_ATTR_NODIRATIME, flagSet: unix.MS_NODIRATIME},
	"diratime":    {attrClear: unix.MOUNT_ATTR_NODIRATIME, flagClear: unix.MS_NODIRATIME},
	"nosymfollow": {attrSet: unix.MOUNT_ATTR_NOSYMFOLLOW, flagSet: unix.MS_NOSYMFOLLOW},
	"symfollow":   {attrClear: unix.MOUNT_ATTR_NOSYMFOLLOW, flagClear: unix.MS_NOSYMFOLLOW},

	// One of three, of which relatime is what the kernel takes when none is named.
	"noatime":       {attrSet: unix.MOUNT_ATTR_NOATIME, attrClear: unix.MOUNT_ATTR__ATIME, flagSet: unix.MS_NOATIME, flagClear: allATime},
	"strictatime":   {attrSet: unix.MOUNT_ATTR_STRICTATIME, attrClear: unix.MOUNT_ATTR__ATIME, flagSet: unix.MS_STRICTATIME, flagClear: allATime},
	"relatime":      {attrClear: unix.MOUNT_ATTR__ATIME, flagSet: unix.MS_RELATIME, flagClear: allATime},
	"atime":         {attrClear: unix.MOUNT_ATTR__ATIME, flagSet: unix.MS_RELATIME, flagClear: allATime},
	"norelatime":    {attrClear: unix.MOUNT_ATTR__ATIME, flagSet: unix.MS_RELATIME, flagClear: allATime},
	"nostrictatime": {attrClear: unix.MOUNT_ATTR__ATIME, flagSet: unix.MS_RELATIME, flagClear: allATime},

	"sync":       {flagSet: unix.MS_SYNCHRONOUS, scope: ofFilesystem},
	"async":      {flagClear: unix.MS_SYNCHRONOUS, scope: ofFilesystem},
	"dirsync":    {flagSet: unix.MS_DIRSYNC, scope: ofFilesystem},
	"lazytime":   {flagSet: unix.MS_LAZYTIME, scope: ofFilesystem},
	"nolazytime": {flagClear: unix.MS_LAZYTIME, scope: ofFilesystem},
	"mand":       {flagSet: unix.MS_MANDLOCK, scope: ofFilesystem},
	"nomand":     {flagClear: unix.MS_MANDLOCK, scope: ofFilesystem},

	// What these permit is between fstab and mount(8); what they imply holds here too.
	"user":  {attrSet: noPrivileges | unix.MOUNT_ATTR_NOEXEC, flagSet: unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
	"users": {attrSet: noPrivileges | unix.MOUNT_ATTR_NOEXEC, flagSet: unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
	"owner": {attrSet: noPrivileges, flagSet: unix.MS_NOSUID | unix.MS_NODEV},
	"group": {attrSet: noPrivileges, flagSet: unix.MS_NOSUID | unix.MS_NODEV},
}

const (
	allATime     = unix.MS_NOATIME | unix.MS_RELATIME | unix.MS_STRICTATIME
	noPrivileges = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
)

var propagations = map[string]propagation{
	"shared":      {flag: unix.MS_SHARED},
	"rshared":     {flag: unix.MS_SHARED, recursive: true},
	"private":     {flag: unix.MS_PRIVATE},
	"rprivate":    {flag: unix.MS_PRIVATE, recursive: true},
	"slave":       {flag: unix.MS_SLAVE},
	"rslave":      {flag: unix.MS_SLAVE, recursive: true},
	"unbindable":  {flag: unix.MS_UNBINDABLE},
	"runbindable": {flag: unix.MS_UNBINDABLE, recursive: true},
}

// parseOptions parses options and then sensitive ones, which are secret unless they are options that every mount has. An
// error holds nothing of the sensitive ones.
func parseOptions(plain, sensitive []string) (options, error) {
	var o options
	for _, list := range []struct {
		elements []string
		secret   bool
	}{{plain, false}, {sensitive, true}} {
		for _, element := range list.elements {
			texts, err := split(element)
			if err != nil {
				return options{}, err
			}
			for _, text := range texts {
				o.add(text, list.secret)
			}
		}
	}
	return o, nil
}

// split cuts at commas, but for those in double quotes or after a backslash, as mount(8) does.
func split(list string) ([]string, error) {
	var (
		items    []string
		start    int
		quoted   bool
		previous byte
	)
	for i := range len(list) {
		switch c := list[i]; {
		case c == '"' && previous != '\\':
			quoted = !quoted
		case c == ',' && previous != '\\' && !quoted:
			items = append(items, list[start:i])
			start = i + 1
		case c == 0:
			return nil, errors.New("a mount option holds a NUL")
		}
		previous = list[i]
	}
	if quoted {
		return nil, errors.New("a mount option has an opening quote without a closing one")
	}
	items = append(items, list[start:])
	return slices.DeleteFunc(items, func(item string) bool { return item == "" }), nil
}

func (o *options) add(text string, secret bool) {
	key, value, hasValue := strings.Cut(text, "=")
	if isIgnored(text) {
		return
	}
	if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
		value = value[1 : len(value)-1]
	}
	added := option{text: text, key: key, value: value, isFlag: !hasValue}
	if flags, ok := known[text]; ok {
		o.attrSet = o.attrSet&^flags.attrClear | flags.attrSet
		o.attrClear = o.attrClear&^flags.attrSet | flags.attrClear
		o.flagSet = o.flagSet&^flags.flagClear | flags.flagSet
		o.flagClear = o.flagClear&^flags.flagSet | flags.flagClear
		added.scope = flags.scope
	} else if kind, ok := propagations[text]; ok {
		o.propagation = append(o.propagation, kind)
	} else if text == "bind" || text == "rbind" {
		o.bind, o.recursive = true, text == "rbind"
	} else if text == "remount" {
		o.remount = true
	} else {
		added.scope, added.secret = ofType, secret
	}
	o.all = append(o.all, added)
}

// isIgnored tells the options that mean something to those who read fstab, or to mount(8), and nothing for the mount.
func isIgnored(text string) bool {
	switch text {
	case "defaults", "auto", "noauto", "nofail", "nouser", "nousers", "noowner", "nogroup", "_netdev", "silent", "loud":
		return true
	}
	return strings.HasPrefix(text, "x-") || text == "comment" || strings.HasPrefix(text, "comment=")
}

// onlyPropagation tells whether there is nothing to do but to change the propagation of a mount.
func (o *options) onlyPropagation(fstype string) bool {
	return (fstype == "" || fstype == "none") && len(o.propagation) > 0 && len(o.all) == len(o.propagation)
}

// parameters returns those that the file system gets.
func (o *options) parameters() []option {
	return slices.DeleteFunc(slices.Clone(o.all), func(p option) bool { return p.scope == ofMount })
}

// checkBind returns an error that names an option which has no effect on a bind mount.
func (o *options) checkBind() error {
	for _, p := range o.parameters() {
		if p.text != "ro" && p.text != "rw" {
			return fmt.Errorf("option %q belongs to the file system and has no effect on a bind mount of it: %w", p, unix.EINVAL)
		}
	}
	return nil
}

// String returns the options as one list, for errors.
func (o *options) String() string {
	texts := make([]string, len(o.all))
	for i, p := range o.all {
		texts[i] = p.String()
	}
	return strings.Join(texts, ",")
}

func (p option) String() string {
	if p.secret {
		return masked
	}
	return p.text
}

// mask returns the first limit bytes of what somebody else wrote, without the sensitive options.
func (o *options) mask(text string, limit int) string {
	secret := make([]bool, len(text)) // byte by byte, since what is to go may overlap
	for _, p := range o.all {
		if !p.secret {
			continue
		}
		for _, word := range []string{p.text, p.value, strings.TrimPrefix(p.text, p.key+"=")} {
			for from := 0; word != ""; from++ {
				i := strings.Index(text[from:], word)
				if i < 0 {
					break
				}
				from += i
				for j := range len(word) {
					secret[from+j] = true
				}
			}
		}
	}
	var clean strings.Builder
	for i := range min(len(text), limit) {
		if !secret[i] {
			clean.WriteByte(text[i])
		} else if i == 0 || !secret[i-1] {
			clean.WriteString(masked)
		}
	}
	return clean.String()
}
