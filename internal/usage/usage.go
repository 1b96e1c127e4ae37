// SPDX-License-Identifier: Apache-2.0

// Package usage measures how much of a file system a directory takes up, and how full a file system is.
package usage

// Usage is what a directory and everything beneath it take up.
type Usage struct {
	// Bytes is the space that the file system has allocated, as du(1) counts it: blocks, not lengths. A file with holes
	// takes up less than its length, a small file more.
	Bytes int64

	// Inodes is the number of files of any kind, the directory itself included. A file with several names counts once.
	Inodes int64
}

// Stat is how full a file system is, as statfs(2) tells it.
type Stat struct {
	// Capacity, Available and Used are in bytes. Available is what an ordinary user can still write; together with Used it
	// may be less than Capacity, because file systems keep a reserve for root.
	Capacity, Available, Used int64

	// Inodes, InodesFree and InodesUsed are zero for a file system that does not limit the number of files, such as btrfs.
	Inodes, InodesFree, InodesUsed int64
}

// walkers is the number of goroutines that one Walk uses at most: two measure a volume with many files nearly twice as fast,
// more would take the node's processors from its pods.
const walkers = 2
