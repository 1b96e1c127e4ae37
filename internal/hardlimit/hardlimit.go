// SPDX-License-Identifier: Apache-2.0

// Package hardlimit gives a directory a limit that the kernel enforces at once: who writes beyond it is told ENOSPC or EDQUOT.
//
// Where the file system has project quotas (see package projectquota), the directory becomes a project of its own. Elsewhere
// it becomes the mount point of an ext4 in a file, the image, which lies beside it and takes up no more than what is in it; the
// loop device goes with the mount.
//
// No record is kept. What there is can be told from the directory, the image's name and the mount. Every call is idempotent, and
// one that was killed after any step is finished by the same call, or undone by [Remove]. Calls for the same directory do not run
// at the same time.
package hardlimit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/mount-utils"
	"k8s.io/utils/exec"
)

// Kind is what enforces a limit.
type Kind string

const (
	// None is what a directory without a limit has.
	None Kind = ""
	// Project is a project quota. On ext4 it does not hold for a process with CAP_SYS_RESOURCE, which root has unless it is in a
	// container that is not privileged.
	Project Kind = "project-quota"
	// Image is a file system of its own.
	Image Kind = "image"
)

// The error of a directory that cannot be given a limit, or not be rid of it, because of what is there matches ErrInUse: something
// else that is mounted on it, or files that an image would hide.
var ErrInUse = errors.New("in use")

// MountPointMode is the permissions of a directory on which an image is mounted, beneath it: none. Whoever finds a directory with
// others knows that there is no image, and nobody but root can write what the image would hide while it is not mounted.
const MountPointMode fs.FileMode = 0

// Options say how a limit is to be.
type Options struct {
	// Bytes is the limit. With an image, a file of that size fits in; there may be room for some more, up to 1 MiB or a twentieth,
	// whichever is more. A project quota is rounded up to 1 KiB.
	Bytes uint64

	// Only leaves no choice between the kinds; [None] does. What a directory has already is kept all the same.
	Only Kind

	// Image is the path of the image, on any file system; empty stands for [ImagePath]. It is the same in all calls.
	Image string

	// Preallocate has the image occupy all its space from the beginning. Otherwise the file system that it lies on may be full
	// before it is; what was written to files but not synchronised is lost then.
	Preallocate bool

	// MountOptions are those of the mount of an image, such as "nosuid". Some that matter here are added.
	MountOptions []string

	// Prepare is called with the root directory of a new image, open for reading, before Apply returns for the first time: to
	// give it its owner and permissions. After a crash it may be called again. Nil leaves the directory root's, with 0755.
	// What has a project quota keeps the owner and permissions that it has.
	Prepare func(root *os.File) error

	// Mounter mounts and unmounts, and Exec runs mkfs and the like. Nil stands for one that makes system calls, and for one
	// that runs programs.
	Mounter mount.Interface
	Exec    exec.Interface
}

// Limit is a limit that was found.
type Limit struct {
	// Kind is what enforces it.
	Kind Kind

	// Complete says that [Apply] came to its end, and Mounted that an image is mounted on the directory. A complete image that
	// is not mounted, as after a reboot, is mounted by Apply.
	Complete, Mounted bool
}

// Enforced says whether the limit holds at this moment.
func (l Limit) Enforced() bool { return l.Complete && (l.Kind == Project || l.Mounted) }

// Usage is how full a directory is. Telling it takes the same time for one file and a million.
type Usage struct {
	Kind Kind

	// Bytes are those that the files occupy, and Limit is the most that they can; Inodes counts the files, with the directory, and
	// InodeLimit is the most of them, 0 if nothing bounds that.
	Bytes, Limit, Inodes, InodeLimit uint64
}

// ImagePath is where the image of a directory is, unless [Options] say otherwise. It begins with two dots, which no volume's name
// does.
func ImagePath(dir string) string {
	return filepath.Join(filepath.Dir(dir), ".."+filepath.Base(dir)+".image")
}

// newPath is where an image is until it is complete.
func newPath(image string) string { return image + ".new" }
