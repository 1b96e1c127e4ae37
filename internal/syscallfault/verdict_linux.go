// SPDX-License-Identifier: Apache-2.0

package syscallfault

import "syscall"

// Verdict is what becomes of a call. The zero value is that of [Continue].
type Verdict struct {
	errno syscall.Errno
	kill  bool
}

// Continue has the kernel make the call.
func Continue() Verdict { return Verdict{} }

// Fail has the call return the error, without making it.
func Fail(errno syscall.Errno) Verdict { return Verdict{errno: errno} }

// Kill has the program killed, with what it started, without making the call: SIGKILL to its process group.
func Kill() Verdict { return Verdict{kill: true} }
