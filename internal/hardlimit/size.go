// SPDX-License-Identifier: Apache-2.0

package hardlimit

import "fmt"

const (
	blockSize = 4096

	// inodeSize is in bytes. There is one inode for every block: with files that are not empty, the bytes run out first. It makes
	// the image longer by a sixteenth, but not larger, since a table without an entry is a hole. As each group that a file system
	// grows by has as many as the first, there are some in a small one too: in a full group, one for four blocks.
	inodeSize    = 256
	fewestInodes = groupBlocks / 4

	groupBlocks    = 8 * blockSize // what one block of bitmap tells of
	descriptorSize = 64

	// The kernel keeps a fiftieth for itself, and at most so many blocks: ext4_resv_clusters in fs/ext4/super.c.
	reservedPart = 50
	reservedMost = 4096

	// slack is for what is not worth counting, in blocks.
	slack = 32

	// sizeUnit is what images are rounded up to.
	sizeUnit = 128 << 10
)

// smallestJournaled is the size in blocks from which on mkfs.ext4 makes a journal. A smaller file system has none, and is checked whole
// after a crash, which takes a moment.
const smallestJournaled = 2048

// journalSize returns the size of the journal in MiB, 0 for none. It only has to be large enough for many small files to be made quickly.
func journalSize(bytes uint64) uint64 {
	if bytes/blockSize < smallestJournaled {
		return 0
	}
	return max(4, min(64, bytes>>26))
}

// makeOptions are those of mkfs.ext4.
func makeOptions(bytes, size uint64) []string {
	options := []string{
		"-b", fmt.Sprint(blockSize),
		"-I", fmt.Sprint(inodeSize),
		"-N", fmt.Sprint(inodes(size / blockSize)),
		// The file has nothing but zeros.
		"-E", "lazy_itable_init=1,lazy_journal_init=1",
	}
	const features = "extent,64bit,metadata_csum,sparse_super,resize_inode,flex_bg"
	if size := journalSize(bytes); size > 0 {
		return append(options, "-J", fmt.Sprintf("size=%d", size), "-O", "has_journal,"+features)
	}
	return append(options, "-O", "^has_journal,"+features)
}

// imageSize returns about how long an image is in which so many bytes can be written.
func imageSize(bytes uint64) uint64 {
	wanted := (bytes+blockSize-1)/blockSize + journalSize(bytes)<<20/blockSize + slack
	blocks := wanted
	for range 8 { // what is reserved grows with what is reserved for it
		blocks = wanted + overhead(blocks)
	}
	return roundUp(blocks*blockSize, sizeUnit)
}

// inodes returns how many there are to be in a file system of so many blocks.
func inodes(blocks uint64) uint64 { return max(blocks, fewestInodes) }

// overhead returns how many blocks, of so many, are not for files, without the journal.
func overhead(blocks uint64) uint64 {
	groups := (blocks + groupBlocks - 1) / groupBlocks
	descriptors := (groups*descriptorSize + blockSize - 1) / blockSize
	// With the descriptors there is room for those of a file system a thousand times as large.
	grown := (1024*blocks/groupBlocks*descriptorSize + blockSize - 1) / blockSize
	return inodes(blocks)*inodeSize/blockSize + groups*2 + copies(groups)*(1+min(descriptors+1024, grown)) + reserved(blocks)
}

// copies returns how many groups have a superblock and descriptors: 0, 1 and those that are a power of 3, 5 or 7.
func copies(groups uint64) uint64 {
	n := uint64(2)
	for _, base := range []uint64{3, 5, 7} {
		for power := base; power < groups; power *= base {
			n++
		}
	}
	return min(groups, n)
}

// grownSize returns how long an image has to become so that it has room for so many bytes. The image is the one of which that is
// the superblock, with room for has.
func grownSize(s superblock, has, bytes uint64) uint64 {
	missing := (bytes-min(has, bytes)+blockSize-1)/blockSize + slack
	// What a group has no tables in.
	most := groupBlocks - 2 - min(s.inodesPerGroup*inodeSize/blockSize, groupBlocks/2)
	blocks := s.blocks + (missing*groupBlocks+most-1)/most
	blocks += reserved(blocks) - reserved(s.blocks)
	blocks += (copies(blocks/groupBlocks+1) - copies(s.blocks/groupBlocks+1)) * (1 + s.descriptors)
	return roundUp(blocks*blockSize, sizeUnit)
}

// reserved is how many blocks the kernel keeps for itself.
func reserved(blocks uint64) uint64 { return min(blocks/reservedPart, reservedMost) }

func roundUp(n, unit uint64) uint64 { return (n + unit - 1) / unit * unit }

// roomIn returns how many bytes of files fit into an ext4 with so many blocks, which are not those of its tables.
func roomIn(blocks uint64) uint64 {
	return (blocks - min(blocks, reserved(blocks)+emptyBlocks)) * blockSize
}

// emptyBlocks is what the root directory occupies from the beginning.
const emptyBlocks = 1

// superblock is what counts of an ext4's.
type superblock struct {
	blocks, free   uint64
	inodesPerGroup uint64
	descriptors    uint64 // the blocks that they have room in, in each group with a superblock
	overhead       uint64 // the blocks of the tables and the journal; 0 if that is not known
}

// freeBytes returns how many bytes can be written to files.
func (s superblock) freeBytes() uint64 {
	return (s.free - min(s.free, reserved(s.blocks))) * blockSize
}

// room returns how many bytes of files fit in, and false if that is not known.
func (s superblock) room() (bytes uint64, ok bool) {
	return roomIn(s.blocks - min(s.blocks, s.overhead)), s.overhead > 0
}
