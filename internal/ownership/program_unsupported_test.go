// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package ownership

func isProgram() bool { return false }

func program() int { return 0 }
