// SPDX-License-Identifier: Apache-2.0

package filesystem

import "fmt"

// The superblock of btrfs, see https://btrfs.readthedocs.io/en/latest/dev/On-disk-format.html#superblock.
const (
	btrfsOffset    = 64 << 10
	btrfsSize      = 4096
	btrfsMagicAt   = 0x40
	btrfsMagic     = "_BHRfS_M"
	btrfsTemporary = "!BHRfS_M" // while mkfs.btrfs is at work
)

// btrfsMirrors are where the copies of the superblock are.
var btrfsMirrors = []int64{64 << 20, 256 << 30, 1 << 50}

func btrfs(s *source) (*Content, error) {
	sb, err := s.at(btrfsOffset, btrfsSize)
	if sb == nil || err != nil {
		return nil, err
	}
	id := formatUUID(sb[0x20:0x30])
	switch string(sb[btrfsMagicAt : btrfsMagicAt+len(btrfsMagic)]) {
	case btrfsTemporary:
		return &Content{Type: fmt.Sprintf("unfinished btrfs (mkfs.btrfs was interrupted; UUID %s)", id)}, nil
	case btrfsMagic:
	default:
		return nil, nil
	}
	if little.Uint64(sb[0x30:]) != btrfsOffset || !powerOfTwo(little.Uint32(sb[0x90:])) || !powerOfTwo(little.Uint32(sb[0x94:])) {
		return &Content{Type: "damaged btrfs (its superblock makes no sense)"}, nil
	}
	return &Content{Type: "btrfs", IsFileSystem: true, UUID: id, Label: text(sb[0x12b : 0x12b+256])}, nil
}

// btrfsEnd returns where the part of the file system that is on this device ends, 0 if there is none.
func btrfsEnd(s *source) (int64, error) {
	sb, err := s.at(btrfsOffset, btrfsSize)
	if sb == nil || err != nil || string(sb[btrfsMagicAt:btrfsMagicAt+len(btrfsMagic)]) != btrfsMagic {
		return 0, err
	}
	return bounded(int64(little.Uint64(sb[0xd1:])), 1, s.size), nil // total_bytes of the dev_item
}

// btrfsMirror recognises a copy of the superblock.
func btrfsMirror(block []byte) string {
	if len(block) < btrfsMagicAt+len(btrfsMagic) {
		return ""
	}
	switch string(block[btrfsMagicAt : btrfsMagicAt+len(btrfsMagic)]) {
	case btrfsMagic, btrfsTemporary:
		return fmt.Sprintf("btrfs superblock mirror (UUID %s)", formatUUID(block[0x20:0x30]))
	}
	return ""
}

func powerOfTwo(n uint32) bool { return n >= 512 && n&(n-1) == 0 }
