// SPDX-License-Identifier: Apache-2.0

// Package mountid tells what is mounted at a path in a way that can be recorded, and tells later whether it is still there.
package mountid

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/internal/abandon"
)

// Identity is what is mounted at a path. Two of them are compared with [Identity.Check]; the zero value differs from nothing.
type Identity struct {
	// Boot is the kernel's boot_id: the other members mean nothing after another boot. Empty where it cannot be read.
	Boot string `json:"boot,omitempty"`

	// Namespace identifies the mount namespace, in which the ID of a mount means something.
	Namespace uint64 `json:"namespace,omitempty"`

	// Mount is the ID of the uppermost mount at the path or, if the path is no mount point, of the one that it is in. 0 if
	// there is nothing at the path, or the kernel does not tell (before Linux 5.8).
	Mount uint64 `json:"mount,omitempty"`

	// Unique says that the kernel does not use that ID for another mount (Linux 6.8).
	Unique bool `json:"unique,omitempty"`

	// Root says that the path is a mount point.
	Root bool `json:"root,omitempty"`

	// Device is that of the file system, "major:minor".
	Device string `json:"device,omitempty"`

	// Source is what was mounted: the device or the export, or the type of the file system where the kernel does not tell
	// (before Linux 6.14); empty if it is no mount point, and before Linux 6.8. It is for people and not compared.
	Source string `json:"source,omitempty"`
}

// Of tells what is mounted at path, the last element of which is not followed if it is a symbolic link. It neither triggers an
// automount nor asks the server of what is mounted there, and so has an answer when that is dead too. If there is nothing at
// the path, neither is there a mount, and that is no error.
//
// It takes a few microseconds, however many mounts there are. When a directory on the way to path hangs, it returns the cause
// of the end of ctx.
func Of(ctx context.Context, path string) (Identity, error) {
	identity, err := abandon.Run(ctx, func() (Identity, error) { return of(path) })
	if err != nil {
		return Identity{}, fmt.Errorf("find out what is mounted on %s: %w", path, err)
	}
	return identity, nil
}

// These are what [Identity.Check] can find.
var (
	// ErrGone: nothing is mounted there any more.
	ErrGone = errors.New("nothing is mounted there any more")
	// ErrAnother: another mount lies there.
	ErrAnother = errors.New("another mount lies there")
	// ErrCovered: something was mounted on what was no mount point.
	ErrCovered = errors.New("something is mounted there, where nothing was")
)

// Check returns an error that matches [ErrGone], [ErrAnother] or [ErrCovered] if what is at the path now is not what was
// recorded. Nil says that it is the same or that the two cannot be told apart.
//
// Nothing can be told after another boot. From another mount namespace, such as that of a container before it was started
// again, only what does not depend on it is compared: whether there is a mount, and the device.
func (i Identity) Check(now Identity) error {
	switch {
	case i.Boot == "" || i.Boot != now.Boot:
		return nil
	case i.Root && !now.Root:
		return ErrGone
	case !i.Root && now.Root:
		return fmt.Errorf("%w: %s", ErrCovered, now)
	case i.differs(now):
		return fmt.Errorf("%w: %s instead of %s", ErrAnother, now, i)
	}
	return nil
}

// differs compares two identities from one boot, both or neither of which are mount points.
func (i Identity) differs(now Identity) bool {
	if i.Mount == 0 || now.Mount == 0 {
		return false
	}
	if i.Namespace == now.Namespace && (i.Mount != now.Mount || i.Unique) {
		return i.Mount != now.Mount
	}
	return i.Root && i.Device != now.Device
}

// Exists reports whether the mount is still somewhere in our mount namespace, covered by another one or moved, say. False says
// that it is not or that the kernel does not tell (before Linux 6.8).
func (i Identity) Exists() bool { return i.exists() }

// String says in words what is mounted: "tmpfs (device 0:45, mount 2147484033)".
func (i Identity) String() string {
	source := i.Source
	if source == "" {
		source = "a file system"
	}
	return fmt.Sprintf("%s (device %s, mount %d)", source, i.Device, i.Mount)
}

// Equal reports whether both are the same, or both nil.
func Equal(a, b *Identity) bool { return a == b || a != nil && b != nil && *a == *b }
