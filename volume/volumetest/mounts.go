// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"slices"
	"strings"
)

// mountTable holds mounts in the order in which they were made, as far as the kernel tells.
type mountTable []mountEntry

type mountEntry struct {
	// id tells a mount from another one at the same place.
	id    int
	point string
	// text is all the rest: what is mounted, and how.
	text string
}

// below returns the mounts at dir or below it.
func (table mountTable) below(dir string) mountTable {
	var below mountTable
	for _, m := range table {
		if m.point == dir || strings.HasPrefix(m.point, dir+"/") {
			below = append(below, m)
		}
	}
	return below
}

// without returns the mounts that are not in the other table as they are here.
func (table mountTable) without(other mountTable) mountTable {
	return slices.DeleteFunc(slices.Clone(table), func(m mountEntry) bool { return slices.Contains(other, m) })
}

// changes lists what has come in the later table, and what has gone below dir. Elsewhere mounts go by themselves: the
// kernel takes one away from every namespace when its mount point is removed in another one.
func (table mountTable) changes(later mountTable, dir string) []string {
	var changes []string
	for _, m := range table.below(dir).without(later) {
		changes = append(changes, "- "+m.point+" "+m.text)
	}
	for _, m := range later.without(table) {
		changes = append(changes, "+ "+m.point+" "+m.text)
	}
	return changes
}

func (table mountTable) points() []string {
	var points []string
	for _, m := range table {
		points = append(points, m.point)
	}
	return points
}

// has reports whether something is mounted at the path.
func (table mountTable) has(path string) bool { return slices.Contains(table.points(), path) }
