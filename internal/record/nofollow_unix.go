// SPDX-License-Identifier: Apache-2.0

//go:build unix

package record

import "syscall"

// noFollow makes it an error that the last element of a path is a symbolic link.
const noFollow = syscall.O_NOFOLLOW
