// SPDX-License-Identifier: Apache-2.0

package mounter

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"
)

// List returns the mounts of the mount namespace, in the order of the mount table. It costs some microseconds for each.
func (m *Mounter) List() ([]mount.MountPoint, error) {
	infos, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fmt.Errorf("list the mounts: %w", err)
	}
	points := make([]mount.MountPoint, len(infos))
	for i, info := range infos {
		points[i] = mount.MountPoint{
			Device: info.Source,
			Path:   info.Mountpoint,
			Type:   info.FSType,
			Opts:   mergeOptions(info.Options, info.VFSOptions),
		}
	}
	return points, nil
}

// mergeOptions makes one list of the options of a mount and of its file system, as /proc/mounts does.
func mergeOptions(ofMount, ofFilesystem string) []string {
	own := strings.Split(ofMount, ",")
	all := slices.Concat(own, strings.Split(ofFilesystem, ","))
	access := "rw"
	if slices.Contains(all, "ro") {
		access = "ro"
	}
	merged := []string{access}
	for _, option := range all {
		if option != "" && option != "ro" && option != "rw" {
			merged = append(merged, option)
		}
	}
	return merged
}

// GetMountRefs returns the other mount points at which what pathname leads to is mounted: the same directory of the same
// file system, wherever it is a mount's root. Pathname need not be a mount point. For one that does not exist there are
// none. The server of a network file system on pathname is not asked.
func (m *Mounter) GetMountRefs(pathname string) ([]string, error) {
	// The descriptor keeps the mount, so its ID is not another's by the time the table is read.
	var fd int
	err := ignoringEINTR(func() (err error) {
		fd, err = unix.Open(pathname, unix.O_PATH|unix.O_CLOEXEC, 0)
		return err
	})
	if err == unix.ENOENT {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find the other mounts: %w", &os.PathError{Op: "open", Path: pathname, Err: err})
	}
	defer unix.Close(fd)
	refs, err := mountRefs(fd)
	if err != nil {
		return nil, fmt.Errorf("find the other mounts of %q: %w", pathname, err)
	}
	return refs, nil
}

func mountRefs(fd int) ([]string, error) {
	resolved, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, err
	}
	id, err := mountID(fd)
	if err != nil {
		return nil, err
	}
	infos, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(infos, func(info *mountinfo.Info) bool { return info.ID == id })
	if at < 0 {
		return nil, fmt.Errorf("mount %d, which holds it, is not in the mount table", id)
	}
	holder := infos[at]
	root := path.Join(holder.Root, strings.TrimPrefix(resolved, holder.Mountpoint))
	var refs []string
	for _, info := range infos {
		if info != holder && info.Root == root && info.Major == holder.Major && info.Minor == holder.Minor {
			refs = append(refs, info.Mountpoint)
		}
	}
	return refs, nil
}

// mountID returns the ID that the mount of a descriptor has in mountinfo, see proc_pid_fdinfo(5).
func mountID(fd int) (int, error) {
	file, err := os.Open(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "mnt_id:"); ok {
			return strconv.Atoi(strings.TrimSpace(id))
		}
	}
	return 0, errors.Join(fmt.Errorf("%s has no mnt_id", file.Name()), lines.Err())
}
