// SPDX-License-Identifier: Apache-2.0

package syscallfault

import "golang.org/x/sys/unix"

// auditArch tells the calls of this architecture from those of another one that the machine can run.
const auditArch = unix.AUDIT_ARCH_X86_64

// archChanges are the calls that older architectures alone have.
func archChanges() []change {
	return []change{
		{number: unix.SYS_MKDIR, name: "mkdir", args: "po"},
		{number: unix.SYS_RMDIR, name: "rmdir", args: "p"},
		{number: unix.SYS_MKNOD, name: "mknod", args: "po"},
		{number: unix.SYS_SYMLINK, name: "symlink", args: "sp"},
		{number: unix.SYS_LINK, name: "link", args: "pp"},
		{number: unix.SYS_UNLINK, name: "unlink", args: "p"},
		{number: unix.SYS_RENAME, name: "rename", args: "pp"},
		{number: unix.SYS_RENAMEAT, name: "renameat", args: "dpdp"},
		{number: unix.SYS_OPEN, name: "open", args: "px", when: condition{arg: 1, anyOf: changesFile}},
		{number: unix.SYS_CREAT, name: "creat", args: "po"},
		{number: unix.SYS_CHMOD, name: "chmod", args: "po"},
		{number: unix.SYS_CHOWN, name: "chown", args: "pnn"},
		{number: unix.SYS_LCHOWN, name: "lchown", args: "pnn"},
		{number: unix.SYS_UTIME, name: "utime", args: "p"},
		{number: unix.SYS_UTIMES, name: "utimes", args: "p"},
		{number: unix.SYS_FUTIMESAT, name: "futimesat", args: "dp"},
	}
}
