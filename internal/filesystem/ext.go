// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"fmt"
	"slices"
)

// The superblock of ext2, ext3 and ext4, see https://docs.kernel.org/filesystems/ext4/globals.html#super-block.
const (
	extOffset = 1024
	extSize   = 1024
	extMagic  = 0xef53

	extHasJournal = 0x4 // of the compatible features
	extJournalDev = 0x8 // of the incompatible ones
	ext64Bit      = 0x80

	// What ext2 and ext3 know of the features. Everything else makes it an ext4.
	ext2Incompatible = 0x2 | 0x10             // filetype, meta_bg
	ext3Incompatible = ext2Incompatible | 0x4 // recover
	ext3ReadOnly     = 0x1 | 0x2 | 0x4        // sparse_super, large_file, btree_dir
)

func ext(s *source) (*Content, error) {
	sb, err := s.at(extOffset, extSize)
	if sb == nil || err != nil || !isExt(sb) {
		return nil, err
	}
	kind := extType(sb)
	switch {
	case little.Uint32(sb[0x60:])&extJournalDev != 0:
		return &Content{Type: "external journal of an ext4"}, nil
	case !extPlausible(sb):
		return &Content{Type: "damaged " + kind + " (its superblock makes no sense)"}, nil
	}
	return &Content{Type: kind, IsFileSystem: true, UUID: formatUUID(sb[0x68:0x78]), Label: text(sb[0x78:0x88])}, nil
}

// extEnd returns where the file system ends, 0 if there is none.
func extEnd(s *source) (int64, error) {
	sb, err := s.at(extOffset, extSize)
	if sb == nil || err != nil || !isExt(sb) || !extPlausible(sb) {
		return 0, err
	}
	blocks := int64(little.Uint32(sb[4:]))
	if little.Uint32(sb[0x60:])&ext64Bit != 0 {
		blocks |= int64(little.Uint32(sb[0x150:])) << 32
	}
	return bounded(blocks, 1024<<little.Uint32(sb[0x18:]), s.size), nil
}

// bounded returns count*size, but no more than most, and 0 for numbers that make no sense.
func bounded(count, size, most int64) int64 {
	if count <= 0 || size <= 0 {
		return 0
	}
	return min(count, most/size+1) * size
}

func isExt(sb []byte) bool { return len(sb) >= 0x88 && little.Uint16(sb[0x38:]) == extMagic }

// extPlausible tells whether this is more than a magic number of two bytes.
func extPlausible(sb []byte) bool {
	inodes, blocks, logBlock := little.Uint32(sb[0:]), little.Uint32(sb[4:]), little.Uint32(sb[0x18:])
	perGroup, revision := little.Uint32(sb[0x20:]), little.Uint32(sb[0x4c:])
	return inodes > 0 && blocks > 0 && logBlock <= 6 && perGroup > 0 && revision <= 1
}

func extType(sb []byte) string {
	journal := little.Uint32(sb[0x5c:])&extHasJournal != 0
	incompatible, readOnly := little.Uint32(sb[0x60:]), little.Uint32(sb[0x64:])
	switch {
	case !journal && incompatible&^ext2Incompatible == 0 && readOnly&^ext3ReadOnly == 0:
		return "ext2"
	case journal && incompatible&^ext3Incompatible == 0 && readOnly&^ext3ReadOnly == 0:
		return "ext3"
	}
	return "ext4"
}

// extBackup recognises a backup superblock, which is at the beginning of a block group.
func extBackup(block []byte) string {
	if !isExt(block) || !extPlausible(block) {
		return ""
	}
	return fmt.Sprintf("%s backup superblock (group %d, UUID %s)", extType(block), little.Uint16(block[0x5a:]), formatUUID(block[0x68:0x78]))
}

// extBackups returns where backup superblocks can be: at the beginning of the groups 1 and the powers of 3, 5 and 7, and of the
// last group (sparse_super2), for each size of blocks and the size of groups that mkfs gives them. Larger groups, with which
// clusters are used (bigalloc), begin at some of these places too.
func extBackups(size int64) []int64 {
	var all []int64
	for blockSize := int64(1024); blockSize <= 64<<10; blockSize *= 2 {
		group := 8 * blockSize * blockSize // one block is the bitmap of a group's blocks
		var first int64
		if blockSize == 1024 {
			first = 1024 // the first block belongs to no group
		}
		groups := (size - first + group - 1) / group
		for _, base := range []int64{3, 5, 7} {
			for n := int64(1); n < groups; n *= base {
				all = append(all, n*group+first)
			}
		}
		if groups > 1 {
			all = append(all, (groups-1)*group+first)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
