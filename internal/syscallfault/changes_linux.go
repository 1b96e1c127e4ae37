// SPDX-License-Identifier: Apache-2.0

package syscallfault

import "golang.org/x/sys/unix"

// change is a system call that changes something.
type change struct {
	number uint32
	name   string

	// args says what the arguments are, one letter each, as far as they are worth showing: p a path, d the descriptor of
	// the directory that the path after it is relative to, f a descriptor, s a string, n a number, o one in octal, x one in
	// hexadecimal, and - is left out.
	args string

	// when is the condition on the arguments, which the kernel checks.
	when condition

	// look is the condition that needs more than the arguments.
	look look
}

// condition is about the lower half of an argument. The zero value is always true.
type condition struct {
	arg    int
	anyOf  uint32   // one of these bits is set
	values []uint32 // or the argument is one of these
	above  uint32   // or it is greater
}

// look is what is looked at beside the arguments.
type look int

const (
	nothing    look = iota
	writesFile      // the descriptor, which is the first argument, is that of a file
	opensToChange
)

// changesFile are the flags with which opening changes something. O_TMPFILE includes O_DIRECTORY, which does not.
const changesFile = unix.O_CREAT | unix.O_TRUNC | unix.O_TMPFILE&^unix.O_DIRECTORY

// standardError is the last of the descriptors on which writing never counts.
const standardError = 2

// changes are all of them.
func changes() []change {
	writes := condition{above: standardError}
	loop := condition{arg: 1, values: []uint32{
		unix.LOOP_SET_FD, unix.LOOP_CLR_FD, unix.LOOP_CONFIGURE, unix.LOOP_SET_STATUS, unix.LOOP_SET_STATUS64,
		unix.LOOP_SET_CAPACITY, unix.LOOP_SET_DIRECT_IO, unix.LOOP_SET_BLOCK_SIZE,
		unix.LOOP_CTL_ADD, unix.LOOP_CTL_REMOVE, unix.LOOP_CTL_GET_FREE, // which may make one
	}}
	return append(archChanges(), []change{
		{number: unix.SYS_MKDIRAT, name: "mkdirat", args: "dpo"},
		{number: unix.SYS_MKNODAT, name: "mknodat", args: "dpo"},
		{number: unix.SYS_SYMLINKAT, name: "symlinkat", args: "sdp"},
		{number: unix.SYS_LINKAT, name: "linkat", args: "dpdp"},
		{number: unix.SYS_UNLINKAT, name: "unlinkat", args: "dpx"},
		{number: unix.SYS_RENAMEAT2, name: "renameat2", args: "dpdpx"},

		{number: unix.SYS_OPENAT, name: "openat", args: "dpx", when: condition{arg: 2, anyOf: changesFile}},
		{number: unix.SYS_OPENAT2, name: "openat2", args: "dp", look: opensToChange},
		{number: unix.SYS_WRITE, name: "write", args: "f-n", when: writes, look: writesFile},
		{number: unix.SYS_WRITEV, name: "writev", args: "f", when: writes, look: writesFile},
		{number: unix.SYS_PWRITE64, name: "pwrite64", args: "f-nn", when: writes, look: writesFile},
		{number: unix.SYS_PWRITEV, name: "pwritev", args: "f", when: writes, look: writesFile},
		{number: unix.SYS_PWRITEV2, name: "pwritev2", args: "f", when: writes, look: writesFile},
		{number: unix.SYS_COPY_FILE_RANGE, name: "copy_file_range", args: "f-f"},
		{number: unix.SYS_SENDFILE, name: "sendfile", args: "ff", when: writes, look: writesFile},
		{number: unix.SYS_TRUNCATE, name: "truncate", args: "pn"},
		{number: unix.SYS_FTRUNCATE, name: "ftruncate", args: "fn"},
		{number: unix.SYS_FALLOCATE, name: "fallocate", args: "fxnn"},
		{number: unix.SYS_FSYNC, name: "fsync", args: "f"},
		{number: unix.SYS_FDATASYNC, name: "fdatasync", args: "f"},
		{number: unix.SYS_SYNCFS, name: "syncfs", args: "f"},

		{number: unix.SYS_FCHMOD, name: "fchmod", args: "fo"},
		{number: unix.SYS_FCHMODAT, name: "fchmodat", args: "dpo"},
		{number: unix.SYS_FCHMODAT2, name: "fchmodat2", args: "dpo"},
		{number: unix.SYS_FCHOWN, name: "fchown", args: "fnn"},
		{number: unix.SYS_FCHOWNAT, name: "fchownat", args: "dpnn"},
		{number: unix.SYS_UTIMENSAT, name: "utimensat", args: "dp"},
		{number: unix.SYS_SETXATTR, name: "setxattr", args: "ps"},
		{number: unix.SYS_LSETXATTR, name: "lsetxattr", args: "ps"},
		{number: unix.SYS_FSETXATTR, name: "fsetxattr", args: "fs"},
		{number: unix.SYS_SETXATTRAT, name: "setxattrat", args: "dp-s"},
		{number: unix.SYS_REMOVEXATTR, name: "removexattr", args: "ps"},
		{number: unix.SYS_LREMOVEXATTR, name: "lremovexattr", args: "ps"},
		{number: unix.SYS_FREMOVEXATTR, name: "fremovexattr", args: "fs"},
		{number: unix.SYS_REMOVEXATTRAT, name: "removexattrat", args: "dp-s"},

		{number: unix.SYS_MOUNT, name: "mount", args: "spsx"},
		{number: unix.SYS_UMOUNT2, name: "umount2", args: "px"},
		{number: unix.SYS_OPEN_TREE, name: "open_tree", args: "dpx", when: condition{arg: 2, anyOf: unix.OPEN_TREE_CLONE}},
		{number: unix.SYS_OPEN_TREE_ATTR, name: "open_tree_attr", args: "dpx", when: condition{arg: 2, anyOf: unix.OPEN_TREE_CLONE}},
		{number: unix.SYS_MOVE_MOUNT, name: "move_mount", args: "dpdpx"},
		{number: unix.SYS_FSOPEN, name: "fsopen", args: "s"},
		{number: unix.SYS_FSPICK, name: "fspick", args: "dp"},
		{number: unix.SYS_FSCONFIG, name: "fsconfig", args: "-ns"}, // the value is not always a string
		{number: unix.SYS_FSMOUNT, name: "fsmount", args: "--x"},
		{number: unix.SYS_MOUNT_SETATTR, name: "mount_setattr", args: "dpx"},
		{number: unix.SYS_PIVOT_ROOT, name: "pivot_root", args: "pp"},
		{number: unix.SYS_IOCTL, name: "ioctl", args: "fx", when: loop},
	}...)
}
