// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package volumetest

import "os"

func syncFileSystem(f *os.File) error { return f.Sync() }
