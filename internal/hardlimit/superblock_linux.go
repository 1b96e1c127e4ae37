// SPDX-License-Identifier: Apache-2.0

package hardlimit

import (
	"encoding/binary"
	"fmt"
	"os"
)

// readSuperblock reads it from an image. Where that is mounted, free may be out of date.
func readSuperblock(image *os.File) (superblock, error) {
	// Documentation/filesystems/ext4/super.rst
	var raw [1024]byte
	if _, err := image.ReadAt(raw[:], 1024); err != nil {
		return superblock{}, fmt.Errorf("superblock of %s: %w", image.Name(), err)
	}
	word := func(at int) uint64 { return uint64(binary.LittleEndian.Uint32(raw[at:])) }
	if word(0x38)&0xffff != 0xef53 {
		return superblock{}, fmt.Errorf("%s is no ext4", image.Name())
	}
	return superblock{
		blocks:         word(0x4) | word(0x150)<<32,
		free:           word(0xc) | word(0x158)<<32,
		inodesPerGroup: word(0x28),
		descriptors:    word(0xcc)>>16 + (word(0x4)/groupBlocks+1)*descriptorSize/blockSize + 1,
		overhead:       word(0x248),
	}, nil
}
