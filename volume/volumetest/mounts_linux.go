// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"
)

// The suite mounts by system call, not with the mounter of the plugin, which is under test too.

// readMounts reads the mount table. Who may not mount gets an empty one: where the mounts are those of the machine, they
// come and go by themselves.
func readMounts(t testing.TB) mountTable {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	infos, err := mount.ParseMountInfo("/proc/self/mountinfo")
	require.NoError(t, err)
	table := make(mountTable, 0, len(infos))
	for _, info := range infos {
		table = append(table, mountEntry{
			id:    info.ID,
			point: unescape.Replace(info.MountPoint),
			text: fmt.Sprintf("%s of %s, source %s, %s; %s; %s", info.Root, info.FsType, info.Source,
				strings.Join(info.MountOptions, ","), strings.Join(info.SuperOptions, ","), strings.Join(info.OptionalFields, ",")),
		})
	}
	return table
}

// unescape undoes what proc_pid_mountinfo(5) does to characters that separate.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// bindMount mounts source, a directory or a file, on target.
func bindMount(t testing.TB, source, target string) {
	t.Helper()
	require.NoError(t, unix.Mount(source, target, "", unix.MS_BIND, ""), "bind %s on %s", source, target)
}

// mountTmpfs mounts a tmpfs on target. Data is its options, as in tmpfs(5).
func mountTmpfs(t testing.TB, target, data string) {
	t.Helper()
	require.NoError(t, unix.Mount("tmpfs", target, "tmpfs", 0, data), "mount a tmpfs on %s", target)
}

// remountTmpfs changes the options of the tmpfs on target.
func remountTmpfs(t testing.TB, target, data string) {
	t.Helper()
	require.NoError(t, unix.Mount("tmpfs", target, "tmpfs", unix.MS_REMOUNT, data), "remount the tmpfs on %s", target)
}

// unmount unmounts what is on target, as somebody does by hand.
func unmount(t testing.TB, target string) {
	t.Helper()
	require.NoError(t, unix.Unmount(target, unix.UMOUNT_NOFOLLOW), "unmount %s", target)
}

// detachBelow unmounts everything below dir.
func detachBelow(t testing.TB, dir string) {
	t.Helper()
	for _, m := range slices.Backward(readMounts(t).below(dir)) {
		// One that went with another one is no error.
		_ = unix.Unmount(m.point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	}
}
