// SPDX-License-Identifier: Apache-2.0

// Package quota has tests of limits that a kernel with project quotas enforces, in a virtual machine.
package quota
