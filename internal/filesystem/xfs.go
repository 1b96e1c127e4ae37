// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"fmt"
	"slices"
)

const (
	xfsMagic = "XFSB"
	xfsSize  = 512
)

// xfs reads the superblock: fs/xfs/libxfs/xfs_format.h, struct xfs_dsb, big endian.
func xfs(s *source) (*Content, error) {
	sb, err := s.at(0, xfsSize)
	if sb == nil || err != nil || string(sb[:4]) != xfsMagic {
		return nil, err
	}
	id := formatUUID(sb[32:48])
	switch {
	case !xfsPlausible(sb):
		return &Content{Type: "damaged xfs (its superblock makes no sense)"}, nil
	case sb[126] != 0: // sb_inprogress
		return &Content{Type: fmt.Sprintf("unfinished xfs (mkfs.xfs or xfs_copy was interrupted; UUID %s)", id)}, nil
	}
	return &Content{Type: "xfs", IsFileSystem: true, UUID: id, Label: text(sb[108:120])}, nil
}

// xfsEnd returns where the file system ends, 0 if there is none.
func xfsEnd(s *source) (int64, error) {
	sb, err := s.at(0, xfsSize)
	if sb == nil || err != nil || string(sb[:4]) != xfsMagic || !xfsPlausible(sb) {
		return 0, err
	}
	return bounded(int64(big.Uint64(sb[8:])), int64(big.Uint32(sb[4:])), s.size), nil
}

func xfsPlausible(sb []byte) bool {
	blockSize, blocks := big.Uint32(sb[4:]), big.Uint64(sb[8:])
	groupBlocks, groups := big.Uint32(sb[84:]), big.Uint32(sb[88:])
	sector, blockLog, sectorLog := big.Uint16(sb[102:]), sb[120], sb[121]
	return blockLog >= 9 && blockLog <= 16 && blockSize == 1<<blockLog &&
		sectorLog >= 9 && sectorLog <= 15 && sector == 1<<sectorLog &&
		blocks > 0 && groups > 0 && groupBlocks > 0
}

// xfsGroup recognises the superblock with which an allocation group begins.
func xfsGroup(block []byte) string {
	if len(block) < xfsSize || string(block[:4]) != xfsMagic {
		return ""
	}
	return fmt.Sprintf("xfs allocation group (UUID %s)", formatUUID(block[32:48]))
}

// xfsGroups returns where mkfs.xfs begins allocation groups: it makes 2, 4, 8, 16 or 32 equal ones, rounded up to a block, or
// such of nearly 1 TiB.
func xfsGroups(size int64) []int64 {
	const blockSize, tebi = 4096, 1 << 40
	var all []int64
	blocks := size / blockSize
	for n := int64(2); n <= parts; n *= 2 {
		group := (blocks + n - 1) / n * blockSize
		for i := range n {
			all = append(all, i*group)
		}
	}
	for i := int64(1); i <= parts && i*tebi <= size; i++ {
		all = append(all, i*(tebi-blockSize))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
