// SPDX-License-Identifier: Apache-2.0

// Package syscallfault runs a program and stops it at every system call that changes something: a test lets the call
// happen, makes it fail, or kills the program just before it. It serves tests only, on Linux on amd64 and arm64.
//
//	supervisor := syscallfault.New(t)
//	calls, err := supervisor.Run(exec.Command(program), func(n int, call syscallfault.Call) syscallfault.Verdict {
//		if n == 3 {
//			return syscallfault.Kill()
//		}
//		return syscallfault.Continue()
//	})
//
// It needs no rights and no change to the program. The kernel tells it of the calls (seccomp user notification, Linux
// 5.19 or later), so all threads are seen, and so are the programs that the program starts.
//
// What changes something: creating, renaming, linking, removing, writing, truncating and syncing files, their modes, owners,
// times and extended attributes, everything about mounts, and loop devices. Opening counts where it may create or
// truncate. Writing counts for files only, not for pipes, sockets, terminals and the standard streams. Locks, and whatever
// ends with the process, do not count.
package syscallfault
