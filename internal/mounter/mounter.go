// SPDX-License-Identifier: Apache-2.0

// Package mounter mounts and unmounts with system calls.
//
// [Mounter] stands in for the one of k8s.io/mount-utils, which runs mount(8) and umount(8). It differs from it on purpose:
//   - A bind mount appears with all its flags at once: there is no moment at which a read-only one can be written to. The flags
//     of the source's mount stay, options add to them and never take one away.
//   - "rbind" is a bind mount like "bind", and "remount" together with one of them changes the mount that is there.
//   - A remount changes what its options name and leaves the rest alone, as mount(8) does when it is given only a target.
//   - A file system that cannot be written to is not silently mounted read-only.
//   - The file system type is never guessed: without one, a mount that needs it is an error.
//   - An option without effect is an error (on a bind mount, for one, each that belongs to the file system), but for those
//     that concern only fstab, such as "_netdev" and "x-…".
//   - systemd is never involved.
//
// All of this works on Linux only; elsewhere each method returns an error that matches [errors.ErrUnsupported].
package mounter

import (
	"errors"
	"fmt"

	"k8s.io/mount-utils"

	"github.com/volumekit/volumekit/internal/unmounting"
)

// Mounter implements [mount.Interface]. Its methods may be called from any goroutines. But for [Mounter.UnmountInSteps] none
// takes a context, so each may hang as long as the server of a network file system does; see package abandon.
//
// Errors match the system's error number, with [errors.Is], and so [io/fs.ErrNotExist] and [io/fs.ErrPermission]; the text
// says what was to be mounted where, and holds the kernel's or the helper program's own words. Sensitive options are never
// in it.
type Mounter struct {
	// helperDirs is where programs that mount one type of file system are looked for, by the name mount.<type>.
	helperDirs []string

	// attempts are the unmounts that were given up and have not returned.
	attempts unmounting.Attempts
}

var _ mount.MounterForceUnmounter = (*Mounter)(nil)

// New returns a Mounter that runs the helper programs in /sbin and /usr/sbin (mount.nfs, mount.cifs, …) for the types of
// file systems that have one, as mount(8) does.
func New() *Mounter { return &Mounter{helperDirs: []string{"/sbin", "/usr/sbin"}} }

// Mount mounts source on target. On a target that is a mount point already, the new mount covers the old one.
//
// The options are those of mount(8), each element one or several of them, separated by commas outside of double quotes; of
// two that contradict each other the last one counts. With "bind" or "rbind" the source is a file or a directory, fstype
// means nothing, and of the mounts that come along with "rbind" only the uppermost gets the options. With "remount" the mount on target is changed. With nothing but the names of propagation types ("rshared",
// "private", …) and no fstype, the propagation of the mount on target is changed. In all other cases fstype names the file
// system, and what is not an option of every mount is a parameter of it.
func (m *Mounter) Mount(source, target, fstype string, options []string) error {
	return m.mount(source, target, fstype, options, nil)
}

// MountSensitive is like Mount with options whose values are kept out of errors. A helper program gets them on its command
// line all the same, as there is no other way that works for every type.
func (m *Mounter) MountSensitive(source, target, fstype string, options, sensitiveOptions []string) error {
	return m.mount(source, target, fstype, options, sensitiveOptions)
}

// MountSensitiveWithoutSystemd is MountSensitive.
func (m *Mounter) MountSensitiveWithoutSystemd(source, target, fstype string, options, sensitiveOptions []string) error {
	return m.mount(source, target, fstype, options, sensitiveOptions)
}

// MountSensitiveWithoutSystemdWithMountFlags is MountSensitive. Of the flags of the mount command it knows those that ask
// for what it does anyway: --no-canonicalize (-c) and --no-mtab (-n). Others are refused with an error that matches
// [errors.ErrUnsupported].
func (m *Mounter) MountSensitiveWithoutSystemdWithMountFlags(source, target, fstype string, options, sensitiveOptions, mountFlags []string) error {
	for _, flag := range mountFlags {
		switch flag {
		case "--no-canonicalize", "-c", "--no-mtab", "-n":
		default:
			return fmt.Errorf("mount on %q: flag %q of the mount command: %w", target, flag, errors.ErrUnsupported)
		}
	}
	return m.mount(source, target, fstype, options, sensitiveOptions)
}

// CanSafelySkipMountPointCheck returns false. True would promise that Unmount succeeds on what is not a mount point, as
// umount(8) can be understood to do; here that is an error, which tells a caller that lost track from one that did not.
func (m *Mounter) CanSafelySkipMountPointCheck() bool { return false }
