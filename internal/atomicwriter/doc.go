// SPDX-License-Identifier: Apache-2.0

// Package atomicwriter replaces all files of a directory at once, while others read them.
//
// A reader sees the files as they were before or as they are afterwards, never some of both and never none, as long as it looks
// at them through one directory descriptor of "..data" or looks that up once. Files that it has open stay as they are.
//
// The form is that of Kubernetes' volumes of config maps and secrets, on which programs rely:
//
//	..2026_12_01_10_30_00.123456789/    the files, in directories of their own
//	..data -> ..2026_12_01_10_30_00.123456789
//	name -> ..data/name                 one for each first element of the files' paths
//
// Files are replaced by renaming a new "..data" onto the old one. A crash at any moment leaves the old files or the new ones, and
// what else it leaves is removed by the next call.
package atomicwriter
