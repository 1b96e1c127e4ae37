// SPDX-License-Identifier: Apache-2.0

package volumetest_test

import "golang.org/x/sys/unix"

// detach unmounts path lazily, with all that is mounted below it.
func detach(path string) error { return unix.Unmount(path, unix.MNT_DETACH) }
