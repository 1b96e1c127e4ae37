// SPDX-License-Identifier: Apache-2.0

package emptydir

import "golang.org/x/sys/unix"

// detach unmounts whatever is mounted at the paths, as the cleanup of a test that failed.
func detach(paths ...string) {
	for _, path := range paths {
		for unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) == nil {
		}
	}
}
