// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package volumedir

import "io/fs"

// HidesMode returns false: there are no mounts.
func HidesMode(string, fs.FileMode) bool { return false }
