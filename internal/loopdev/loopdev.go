// SPDX-License-Identifier: Apache-2.0

// Package loopdev attaches files to loop devices, by system calls, and finds the devices again by what they are attached to: the
// device and inode of the file, never its name or a program's output.
//
// A process that is killed in Attach leaves nothing, or a device that is attached. One that was attached with Autoclear goes with
// the process, unless it has been mounted meanwhile; another one is found again by Find.
package loopdev

import "fmt"

// FileID names a file among all of the machine, as long as it exists. A file that is attached to a loop device exists, even if it
// has no name any more.
type FileID struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

// Device is a loop device that is attached to a file.
type Device struct {
	// Path is that of the device, "/dev/loop7", and Number what stands in it.
	Path   string
	Number int

	// Backing is the file, or the node of a block device, that it is attached to.
	Backing FileID

	// BackingName is what whoever attached it called it: [Options].Name, or else the file's path, of which the kernel keeps the
	// first 62 bytes.
	BackingName string

	// Offset and SizeLimit are the part of the file that the device shows, in bytes; a SizeLimit of 0 stands for all of the rest.
	Offset, SizeLimit uint64

	// ReadOnly says that the device cannot be written to; Autoclear, that it is detached when nobody has it open or mounted any
	// more; DirectIO, that the page cache does not hold its blocks a second time.
	ReadOnly, Autoclear, DirectIO bool
}

// String returns the path.
func (d Device) String() string { return d.Path }

// Options say how a file is attached. The zero value is right for a device that has to be detached by Detach.
type Options struct {
	// ReadOnly attaches the file so that it cannot be written to.
	ReadOnly bool

	// DirectIO keeps the file's blocks out of the page cache, where the file system can do so. Elsewhere it has no effect.
	DirectIO bool

	// Name is kept by the kernel, beside the file's own path, for FindNamed. It has at most 62 bytes. Empty stands for the path.
	Name string

	// Autoclear has the device detached when nobody has it open or mounted any more. The [Handle] keeps it open.
	Autoclear bool
}

// errNode explains a device node that is missing. It does not match [fs.ErrNotExist]: the device is there.
func errNode(path string) error {
	return fmt.Errorf("the kernel has the loop device, but there is no node %s for it: is /dev a container's own? Give it the machine's",
		path)
}
