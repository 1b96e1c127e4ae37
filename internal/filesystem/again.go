// SPDX-License-Identifier: Apache-2.0

package filesystem

import "strings"

// IsLeftOf reports whether the content is what an interrupted [Make] has left that was to make a file system with the UUID: what is
// there names it, and is no file system. UUIDs are random, so that nobody else's is taken for it. Not everything that is left names
// one, see the package's documentation.
func (c Content) IsLeftOf(uuid string) bool {
	return !c.Blank && !c.IsFileSystem && uuid != "" && strings.Contains(c.Type, "UUID "+strings.ToLower(uuid)+")")
}
