// SPDX-License-Identifier: Apache-2.0

package syscallfault

import "golang.org/x/sys/unix"

// auditArch tells the calls of this architecture from those of another one that the machine can run.
const auditArch = unix.AUDIT_ARCH_AARCH64

// archChanges are the calls that newer architectures do not have.
func archChanges() []change {
	return []change{{number: unix.SYS_RENAMEAT, name: "renameat", args: "dpdp"}}
}
