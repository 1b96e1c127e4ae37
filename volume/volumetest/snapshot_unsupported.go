// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package volumetest

import (
	"io/fs"
)

func statText(info fs.FileInfo) string { return ", modified " + info.ModTime().String() }

func group(fs.FileInfo) int { return -1 }

func setUmask(int) int { return 0 }
