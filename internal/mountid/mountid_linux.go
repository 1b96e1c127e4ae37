// SPDX-License-Identifier: Apache-2.0

package mountid

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/statmount"
)

const (
	statxFlags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	// Nothing that the server would have to be asked for. Of the two the kernel gives the unique one if it has it.
	statxMask = unix.STATX_MNT_ID | unix.STATX_MNT_ID_UNIQUE
)

func of(path string) (Identity, error) {
	identity := Identity{Boot: boot(), Namespace: namespace()}
	stat, err := statx(path)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return identity, nil
	case err != nil:
		return Identity{}, err
	}
	identity.Mount, identity.Unique = mountOf(stat)
	identity.Device = strconv.Itoa(int(stat.Dev_major)) + ":" + strconv.Itoa(int(stat.Dev_minor))
	identity.Root = stat.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
	if stat.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		if identity.Root, err = mountinfo.Mounted(path); err != nil {
			return Identity{}, err
		}
	}
	if identity.Root && identity.Unique {
		identity.Source = source(identity.Mount)
	}
	return identity, nil
}

func statx(path string) (*unix.Statx_t, error) {
	var stat unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, statxFlags, statxMask, &stat)
	for err == unix.EINTR {
		err = unix.Statx(unix.AT_FDCWD, path, statxFlags, statxMask, &stat)
	}
	return &stat, os.NewSyscallError("statx", err)
}

func mountOf(stat *unix.Statx_t) (id uint64, unique bool) {
	if stat.Mask&statxMask == 0 {
		return 0, false
	}
	return stat.Mnt_id, stat.Mask&unix.STATX_MNT_ID_UNIQUE != 0
}

// source is for people, so that not to know it is no error.
func source(id uint64) string {
	m, err := statmount.Get(id, statmount.SourceName|statmount.TypeName)
	if err != nil {
		return ""
	}
	if m.Source == "" {
		return m.Type
	}
	return m.Source
}

func (i Identity) exists() bool {
	if !i.Unique || i.Boot == "" || i.Boot != boot() || i.Namespace != namespace() {
		return false
	}
	_, err := statmount.Get(i.Mount, statmount.Basic)
	return err == nil
}

// boot and namespace do not change while a process lives.
var (
	boot      = sync.OnceValue(readBoot)
	namespace = sync.OnceValue(readNamespace)
)

func readBoot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// getMountNamespaceID is NS_GET_MNTNS_ID of linux/nsfs.h: _IOR(0xb7, 5, __u64).
const getMountNamespaceID = 0x8008b705

// readNamespace returns a number that no later namespace has. The inode number of a namespace alone is no such: it soon is
// that of another one. Kernels without an ID for it have the mounts of a new namespace numbered anew, the root's too.
func readNamespace() uint64 {
	file, err := os.Open("/proc/self/ns/mnt")
	if err != nil {
		return 0
	}
	defer file.Close()
	var id uint64
	if ioctlUint64(file, getMountNamespaceID, &id) == nil {
		return id
	}
	var ns unix.Stat_t
	root, rootErr := statx("/")
	if rootErr != nil || unix.Fstat(int(file.Fd()), &ns) != nil {
		return 0
	}
	mount, _ := mountOf(root)
	return ns.Ino<<32 ^ mount
}
