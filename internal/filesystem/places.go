// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"cmp"
	"slices"
)

// placeSize is how much is read at a place. It is the most that fits before the end of any device that has a place.
const placeSize = 4096

// A place is where something is that outlives an overwritten beginning.
type place struct {
	offset    int64
	recognise func(block []byte) string // says what it is, "" if it is not there
}

// places returns where copies are, on a device of this size, in ascending order.
func places(size int64) []place {
	var all []place
	add := func(offset int64, recognise func([]byte) string) {
		if offset > 0 && offset <= size-512 {
			all = append(all, place{offset, recognise})
		}
	}
	for _, offset := range extBackups(size) {
		add(offset, extBackup)
	}
	for _, offset := range btrfsMirrors {
		add(offset, btrfsMirror)
	}
	for _, offset := range xfsGroups(size) {
		add(offset, xfsGroup)
	}
	for _, offset := range luksSecondHeaders {
		add(offset, luksSecondHeader)
	}
	for _, sector := range []int64{512, 4096} {
		add(size-sector, gptBackup)
	}
	add(size-512, ntfsBackup)
	add(4096, f2fsSecond)
	slices.SortStableFunc(all, func(a, b place) int { return cmp.Compare(a.offset, b.offset) })
	return all
}

type span struct{ from, to int64 }

const (
	// parts is into how many equal parts a device is divided to be looked at where each begins.
	parts = 32

	// partSize is how much is looked at there. The allocation groups of an xfs with blocks of up to 4 KiB begin there: their
	// size is rounded up to a block, so that the last of 32 begins up to 31 blocks later.
	partSize = 128 << 10
)

// whole is the size up to which a device is read to its end before it is called blank. That takes seconds at the most, once.
const whole = 4 << 30

// ranges returns what has to be zero on a device of this size, in ascending order: all of it, or of a large one the beginning, the
// end, some of each part between, and wherever a copy of something could be.
func ranges(size int64) []span {
	if size <= whole {
		return []span{{0, size}}
	}
	all := []span{{0, headEdge}, {size - edge, size}}
	for part := range int64(parts) {
		from := size / parts * part &^ (placeSize - 1)
		all = append(all, span{from, from + partSize})
	}
	for _, p := range places(size) {
		all = append(all, span{p.offset &^ (placeSize - 1), p.offset + placeSize})
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	// Nothing is read twice.
	merged := all[:1]
	for _, r := range all[1:] {
		if last := &merged[len(merged)-1]; r.from <= last.to {
			last.to = max(last.to, r.to)
			continue
		}
		merged = append(merged, r)
	}
	return merged
}
