// SPDX-License-Identifier: Apache-2.0

package ownership

import "golang.org/x/sys/unix"

// What is added to the permissions; the kubelet's choice.
const (
	readWrite = 0o660
	readOnly  = 0o440
	search    = 0o110 // directories only
)

// special are the bits beside the nine of the permissions.
const special = unix.S_ISUID | unix.S_ISGID | unix.S_ISVTX

// target is what everything is to be.
type target struct {
	group uint32
	mask  uint32 // the permissions that nothing may lack
}

func newTarget(options Options) target {
	t := target{group: uint32(options.Group), mask: readWrite}
	if options.ReadOnly {
		t.mask = readOnly
	}
	return t
}

// mode returns the mode that an entry is to have, without its type.
func (t *target) mode(st *unix.Statx_t) uint32 {
	now := modeOf(st)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK: // has none of its own
		return now
	case unix.S_IFDIR:
		return now | t.mask | search | unix.S_ISGID
	}
	return now | t.mask
}

// right says whether nothing has to be changed.
func (t *target) right(st *unix.Statx_t) bool {
	return st.Gid == t.group && modeOf(st) == t.mode(st)
}

func modeOf(st *unix.Statx_t) uint32 { return uint32(st.Mode) & (special | 0o777) }

func isDir(st *unix.Statx_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }
