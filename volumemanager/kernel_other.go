// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package volumemanager

func kernelHasRecursiveReadOnly() bool { return false }
