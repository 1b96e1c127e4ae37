// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"fmt"
	"io/fs"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/volume"
)

// TypeError says that there is something else at the path than its hostPath.type asks for. It matches
// [volume.ErrInvalid].
type TypeError struct {
	// Path is the path as the hostPath gives it.
	Path string

	// Want is the type that it gives.
	Want v1.HostPathType

	// Found is what is there, after symbolic links were followed: "directory", "regular file", "socket", "character
	// device", "block device", "named pipe" or "irregular file".
	Found string
}

// Error names the path, what it is, and what it should be.
func (e *TypeError) Error() string {
	return fmt.Sprintf("hostPath %q is a %s, but its type %s asks for a %s", e.Path, e.Found, e.Want, kinds[e.Want].thing)
}

// Is reports whether target is [volume.ErrInvalid].
func (e *TypeError) Is(target error) bool { return target == volume.ErrInvalid }

// kind is what a HostPathType asks for.
type kind struct {
	thing  string
	mode   fs.FileMode // its type bits
	create bool
}

var kinds = map[v1.HostPathType]kind{
	v1.HostPathDirectory:         {thing: "directory", mode: fs.ModeDir},
	v1.HostPathDirectoryOrCreate: {thing: "directory", mode: fs.ModeDir, create: true},
	v1.HostPathFile:              {thing: "regular file"},
	v1.HostPathFileOrCreate:      {thing: "regular file", create: true},
	v1.HostPathSocket:            {thing: "socket", mode: fs.ModeSocket},
	v1.HostPathCharDev:           {thing: "character device", mode: fs.ModeDevice | fs.ModeCharDevice},
	v1.HostPathBlockDev:          {thing: "block device", mode: fs.ModeDevice},
}

// thing says in words what a file mode stands for.
func thing(mode fs.FileMode) string {
	switch mode.Type() {
	case 0:
		return "regular file"
	case fs.ModeDir:
		return "directory"
	case fs.ModeSymlink:
		return "symbolic link"
	case fs.ModeSocket:
		return "socket"
	case fs.ModeDevice | fs.ModeCharDevice:
		return "character device"
	case fs.ModeDevice:
		return "block device"
	case fs.ModeNamedPipe:
		return "named pipe"
	}
	return "irregular file"
}
