// SPDX-License-Identifier: Apache-2.0

package unmounting

// Step is how a mount was taken away, from the gentlest on.
type Step int

const (
	// Plain is the usual way: umount2 without flags, which refuses what is in use.
	Plain Step = iota
	// Forced is with MNT_FORCE, which ends what waits for a server that does not answer with an error.
	Forced
	// Lazy is with MNT_DETACH: the mount is out of the directory tree, and goes when its last user does.
	Lazy
)

// String returns the words that complete "unmounted …": "as usual", "by force" or "lazily".
func (s Step) String() string {
	switch s {
	case Forced:
		return "by force"
	case Lazy:
		return "lazily"
	}
	return "as usual"
}
