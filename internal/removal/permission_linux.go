// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"strconv"

	"github.com/volumekit/volumekit/internal/descent"
	"golang.org/x/sys/unix"
)

// ownerAccess is what it takes to list a directory, to go through it, and to remove entries from it.
const ownerAccess = unix.S_IRWXU

// allowDirectory gives the owner access to a directory of the current one, and says whether that changed anything.
func (r *remover) allowDirectory(name string) bool {
	fd, err := descent.Open(r.at.Dir(), name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return allow(fd)
}

// allow gives the owner access to the directory that fd is open on, and says whether that changed anything. An O_PATH
// descriptor will do.
func allow(fd int) bool {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&ownerAccess == ownerAccess {
		return false
	}
	mode := st.Mode&^unix.S_IFMT | ownerAccess
	err := unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH)
	if err == unix.EOPNOTSUPP { // Linux before 6.6: fchmod refuses O_PATH, the link in proc does not
		err = unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode)
	}
	return err == nil
}
