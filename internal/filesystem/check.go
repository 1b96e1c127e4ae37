// SPDX-License-Identifier: Apache-2.0

package filesystem

// CheckResult is what [Check] found, where it found no more than what could be repaired.
type CheckResult struct {
	// Repaired says that something was wrong and has been repaired.
	Repaired bool

	// Output is what the program wrote, or why none was run.
	Output string
}
