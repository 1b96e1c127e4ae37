// SPDX-License-Identifier: Apache-2.0

// Package filesystem tells what is on a block device or in an image file, and makes, checks and grows file systems there.
//
// [Probe] reads for itself. It knows three answers: a device is proved to be blank, something is on it, or it is not known,
// which is an error. Nothing but proof lets [Make] run mkfs, and mkfs is never forced.
//
// # What an interrupted mkfs leaves
//
// The programs write last what makes a file system valid, so one that was killed leaves what [Probe] calls neither blank nor a
// file system, or what is blank indeed; the tests kill them before their writes and look:
//
//   - mkfs.ext4 writes the superblock at the very end, behind an fsync. Before that there are "data of unknown kind at offset …", then
//     an "ext4 backup superblock (group 1, UUID …) at offset …".
//   - mkfs.btrfs writes another magic number until the end, behind an fsync: "data of unknown kind …", then "unfinished btrfs (…;
//     UUID …)". Once the superblock is there, only its copies are still to be written.
//   - mkfs.xfs writes the superblock first, with a mark that it clears at the end: "unfinished xfs (…; UUID …)". No fsync is between,
//     so that after a power cut, unlike after a kill, an xfs may look finished that is not; mounting that fails.
//
// Where the UUID shows, a caller that has recorded it beforehand may have the file system made again, see [MakeOptions.Again]. All
// else stays as it is until somebody wipes it. An image file can be made anew.
package filesystem
