// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"slices"
	"strings"
	"unicode/utf16"
)

// containers are what may have something inside that looks like a file system of its own.
var containers = []detector{
	mdraid,
	magic("Intel RAID member", "Intel Raid ISM Cfg Sig. ", -1024, -8192),
	magic("DDF RAID member", "\xde\x11\xde\x11", -512, -257*512),
	magic("DRBD device", "\x83\x74\x02\x67", -4096+60),
	magic("DRBD device", "\x83\x74\x02\x6b", -4096+60),
	magic("DRBD device", "\x83\x74\x02\x6d", -4096+60),
	lvm2,
	magic("LUKS", "LUKS\xba\xbe", 0),
	magic("BitLocker volume", "-FVE-FS-", 3),
	magic("bcache device", "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81", 4096+24),
	magic("Ceph BlueStore device", "bluestore block device", 0),
	magic("Stratis pool member", "!Stra0tis\x86\xff\x02^\x41rh", 512+4),
	magic("VDO device", "dmvdo001", 0),
	magic("dm-verity hash device", "verity\x00\x00", 0),
	magic("dm-integrity device", "integrt\x00", 0),
	magic("snapshot exception store", "SnAp", 0),
	magic("Oracle ASM disk", "ORCLDISK", 32),
}

// fileSystems are what can be mounted, beside ext and xfs. No two of them are on a device that was made by one mkfs.
var fileSystems = []detector{
	btrfs,
	f2fs,
	exclusive(fsMagic("exfat", "EXFAT   ", 3)),
	exclusive(fsMagic("ntfs", "NTFS    ", 3)),
	exclusive(vfat),
	fsMagic("iso9660", "CD001", 32769),
	fsMagic("squashfs", "hsqs", 0),
	fsMagic("erofs", "\xe2\xe1\xf5\xe0", 1024),
	fsMagic("cramfs", "\x45\x3d\xcd\x28", 0),
	fsMagic("romfs", "-rom1fs-", 0),
	fsMagic("reiserfs", "ReIsEr", 65536+52, 8192+52, 65536),
	fsMagic("jfs", "JFS1", 32768),
	fsMagic("gfs2", "\x01\x16\x19\x70", 65536),
	fsMagic("ocfs2", "OCFSV2", 1024, 2048, 4096, 8192),
	fsMagic("apfs", "NXSB", 32),
	fsMagic("bcachefs", "\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef", 4096+24),
	fsMagic("hfsplus", "H+\x00\x04", 1024),
	fsMagic("hfsplus", "HX\x00\x05", 1024),
	fsMagic("ufs", "\x54\x19\x01\x19", 8192+1372, 65536+1372),
}

// others are what is looked for when there is neither a container nor a file system.
var others = []detector{
	zfs,
	magic("VMFS volume", "\x0d\xd0\x01\xc0", 1<<20),
	udf,
	swap,
	magic("GPT partition table", gptMagic, 512, 4096),
	mbr,
	magic("Apple partition map", "PM\x00\x00", 512),
	magic("BSD disk label", "\x57\x45\x56\x82", 512, 64),
	magic("Sun disk label", "\xda\xbe", 508),
}

// magic detects something that is no file system by what is at one of the offsets; negative ones count from the end.
func magic(what, magic string, offsets ...int64) detector {
	return magicOf(Content{Type: what}, magic, offsets)
}

func fsMagic(fsType, magic string, offsets ...int64) detector {
	return magicOf(Content{Type: fsType, IsFileSystem: true}, magic, offsets)
}

func magicOf(c Content, magic string, offsets []int64) detector {
	return func(s *source) (*Content, error) {
		for _, offset := range offsets {
			if offset < 0 {
				offset += s.size
				if offset < s.claimed {
					continue
				}
			}
			if found, err := s.has(offset, magic); found || err != nil {
				return &c, err
			}
		}
		return nil, nil
	}
}

// exclusive is a detector of what has its magic number where the boot code of others is, which may hold a copy of it.
func exclusive(d detector) detector {
	return func(s *source) (*Content, error) {
		for _, other := range []detector{btrfs, f2fs} {
			if found, err := other(s); found != nil || err != nil {
				return nil, err
			}
		}
		return d(s)
	}
}

// mdraid: https://raid.wiki.kernel.org/index.php/RAID_superblock_formats.
func mdraid(s *source) (*Content, error) {
	const magic, magicBE = "\xfc\x4e\x2b\xa9", "\xa9\x2b\x4e\xfc"
	for _, offset := range []int64{0, 4096, (s.size/512 - 16) &^ 7 * 512} {
		if offset > headKept && offset < s.claimed {
			continue
		}
		sb, err := s.at(offset, 8)
		if err != nil {
			return nil, err
		}
		if sb != nil && string(sb[:4]) == magic && little.Uint32(sb[4:]) == 1 {
			return &Content{Type: "Linux RAID member"}, nil
		}
	}
	last := s.size&^(64<<10-1) - 64<<10
	sb, err := s.at(last, 4)
	if sb == nil || err != nil || last < s.claimed || string(sb) != magic && string(sb) != magicBE {
		return nil, err
	}
	return &Content{Type: "Linux RAID member"}, nil
}

func lvm2(s *source) (*Content, error) {
	for sector := range int64(4) {
		label, err := s.at(sector*512, 32)
		if err != nil {
			return nil, err
		}
		if label != nil && string(label[:8]) == "LABELONE" && string(label[24:32]) == "LVM2 001" {
			return &Content{Type: "LVM2 physical volume"}, nil
		}
	}
	return nil, nil
}

// luksSecondHeaders are where LUKS2 has its second header, depending on the size of the first one.
var luksSecondHeaders = []int64{16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20}

func luksSecondHeader(block []byte) string {
	if strings.HasPrefix(string(block), "SKUL\xba\xbe") {
		return "second header of LUKS"
	}
	return ""
}

const f2fsMagic = "\x10\x20\xf5\xf2"

func f2fs(s *source) (*Content, error) {
	sb, err := s.at(1024, 2048)
	if sb == nil || err != nil || string(sb[:4]) != f2fsMagic {
		return nil, err
	}
	label := make([]uint16, 0, 512)
	for i := 124; i < 124+1024; i += 2 {
		label = append(label, little.Uint16(sb[i:]))
	}
	if end := slices.Index(label, 0); end >= 0 {
		label = label[:end]
	}
	return &Content{Type: "f2fs", IsFileSystem: true, UUID: formatUUID(sb[108:124]), Label: string(utf16.Decode(label))}, nil
}

func f2fsSecond(block []byte) string {
	if len(block) >= 1028 && string(block[1024:1028]) == f2fsMagic {
		return "second superblock of f2fs"
	}
	return ""
}

// vfat has no magic number that is worth the name, so the boot sector has to make sense.
func vfat(s *source) (*Content, error) {
	boot, err := s.at(0, 512)
	if boot == nil || err != nil {
		return nil, err
	}
	named := string(boot[82:87]) == "FAT32" || string(boot[54:57]) == "FAT" || string(boot[3:8]) == "MSDOS"
	sector, perCluster, fats := uint32(little.Uint16(boot[11:])), uint32(boot[13]), boot[16]
	plausible := powerOfTwo(sector) && perCluster != 0 && perCluster&(perCluster-1) == 0 && (fats == 1 || fats == 2) && boot[21] >= 0xf0
	if !named || !plausible || !hasBootMark(boot) {
		return nil, nil
	}
	return &Content{Type: "vfat", IsFileSystem: true}, nil
}

func hasBootMark(sector []byte) bool { return sector[510] == 0x55 && sector[511] == 0xaa }

func ntfsBackup(block []byte) string {
	if len(block) >= 11 && string(block[3:11]) == "NTFS    " {
		return "backup boot sector of ntfs"
	}
	return ""
}

// zfs: each label has an array of uberblocks, 1 KiB or more each, from its offset 128 KiB.
func zfs(s *source) (*Content, error) {
	const uberblock = 0x00bab10c
	for _, label := range []int64{0, 256 << 10, s.size&^(256<<10-1) - 512<<10, s.size&^(256<<10-1) - 256<<10} {
		array, err := s.at(label+128<<10, 128<<10)
		if err != nil {
			return nil, err
		}
		for ; len(array) > 0; array = array[1024:] {
			if little.Uint64(array) == uberblock || big.Uint64(array) == uberblock {
				return &Content{Type: "ZFS pool member"}, nil
			}
		}
	}
	return nil, nil
}

// udf has the same volume descriptors as iso9660, with other names.
func udf(s *source) (*Content, error) {
	for sector := int64(16); sector < 32; sector++ {
		for _, name := range []string{"NSR02", "NSR03"} {
			if found, err := s.has(sector*2048+1, name); found || err != nil {
				return &Content{Type: "udf", IsFileSystem: true}, err
			}
		}
	}
	return nil, nil
}

// swap has its magic number at the end of the first page.
func swap(s *source) (*Content, error) {
	for page := int64(4 << 10); page <= 64<<10; page *= 2 {
		for _, name := range []string{"SWAPSPACE2", "SWAP-SPACE", "S1SUSPEND\x00", "S2SUSPEND\x00", "ULSUSPEND\x00", "LINHIB0001"} {
			if found, err := s.has(page-10, name); found || err != nil {
				return &Content{Type: "swap"}, err
			}
		}
	}
	return nil, nil
}

const gptMagic = "EFI PART"

func gptBackup(block []byte) string {
	if strings.HasPrefix(string(block), gptMagic) {
		return "backup of a GPT partition table"
	}
	return ""
}

func mbr(s *source) (*Content, error) {
	sector, err := s.at(0, 512)
	if sector == nil || err != nil || !hasBootMark(sector) {
		return nil, err
	}
	used := false
	for entry := 446; entry < 510; entry += 16 {
		if sector[entry]&0x7f != 0 {
			return &Content{Type: "boot sector"}, nil
		}
		used = used || sector[entry+4] != 0
	}
	if !used && little.Uint32(sector[440:]) == 0 { // the disk's signature
		return &Content{Type: "boot sector"}, nil
	}
	return &Content{Type: "MBR partition table"}, nil
}
