// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/subpath"
)

// asOnTheHost are the directories that a command gets as the host has them. The rest of the host is read-only, so that what
// was to be written to a volume never lands beside it.
var asOnTheHost = []string{"/dev", "/proc", "/sys", "/tmp"}

// enterView gives this process, which has a mount namespace of its own, a root directory that is the host's with the mounts
// at their destinations, and makes it the working directory. Parents come before what is mounted inside them.
//
// Nothing of it shows on the host: missing destinations are made in small tmpfs that stand in for the directories that lack
// them, except below a volume, where they are made as a container runtime makes them.
func enterView(mounts []viewMount) error {
	umask := unix.Umask(0)
	defer unix.Umask(umask)
	sources := make([]source, len(mounts))
	for i := range mounts {
		var err error
		if sources[i], err = openSource(&mounts[i]); err != nil {
			return fmt.Errorf("volume %q: %w", mounts[i].Volume, err)
		}
	}
	r, err := newRoot()
	if err != nil {
		return err
	}
	for i, m := range mounts {
		if err := r.makeDestination(m.Destination, sources[i].directory, true); err != nil {
			return fmt.Errorf("volume %q: make its destination %s: %w", m.Volume, m.Destination, err)
		}
	}
	for i, m := range mounts {
		if err := r.attach(sources[i], m.Destination); err != nil {
			return fmt.Errorf("volume %q: mount it on %s: %w", m.Volume, m.Destination, err)
		}
	}
	return r.enter()
}

// source is a copy of the mounts that a container gets, attached nowhere.
type source struct {
	mount     int
	directory bool
}

// openSource is called while the mounts of this namespace still have the propagation that they have on the host.
func openSource(m *viewMount) (source, error) {
	place, err := openPlace(m)
	if err != nil {
		return source{}, err
	}
	defer place.Close()
	var stat unix.Statx_t
	const flags = unix.AT_EMPTY_PATH | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(int(place.Fd()), "", flags, unix.STATX_TYPE|unix.STATX_MNT_ID, &stat); err != nil {
		return source{}, &fs.PathError{Op: "statx", Path: m.Source, Err: err}
	}
	if err := checkPropagation(m.Propagation, stat.Mnt_id); err != nil {
		return source{}, err
	}
	mount, err := cloneTree(int(place.Fd()), "", unix.AT_EMPTY_PATH)
	if err != nil {
		return source{}, fmt.Errorf("copy the mount of %s: %w", m.Source, err)
	}
	if err := setOptions(mount, m); err != nil {
		return source{}, err
	}
	return source{mount: mount, directory: stat.Mode&unix.S_IFMT == unix.S_IFDIR}, nil
}

func openPlace(m *viewMount) (*os.File, error) {
	if m.SubPath != "" {
		return subpath.Open(context.Background(), m.VolumePath, m.SubPath)
	}
	return os.OpenFile(m.Source, unix.O_PATH, 0)
}

// checkPropagation refuses what container runtimes refuse: propagation from a mount that has none.
func checkPropagation(mode v1.MountPropagationMode, mountID uint64) error {
	if mode == v1.MountPropagationNone {
		return nil
	}
	infos, err := mountinfo.GetMounts(func(info *mountinfo.Info) (skip, stop bool) {
		found := uint64(info.ID) == mountID
		return !found, found
	})
	if err != nil {
		return err
	}
	shared, slave := false, false
	for _, info := range infos {
		shared = shared || strings.Contains(info.Optional, "shared:")
		slave = slave || strings.Contains(info.Optional, "master:")
	}
	switch {
	case mode == v1.MountPropagationBidirectional && !shared && os.Geteuid() != 0:
		return errors.New("mountPropagation Bidirectional needs root: no mount gets out of a user namespace")
	case mode == v1.MountPropagationBidirectional && !shared, !shared && !slave:
		return fmt.Errorf("mountPropagation %s: the mount that it is on is not shared: make it that with mount --make-rshared", mode)
	}
	return nil
}

func setOptions(mount int, m *viewMount) error {
	attr := unix.MountAttr{}
	for _, option := range m.BindOptions {
		attr.Attr_set |= map[string]uint64{"noexec": unix.MOUNT_ATTR_NOEXEC, "nodev": unix.MOUNT_ATTR_NODEV, "nosuid": unix.MOUNT_ATTR_NOSUID}[option]
	}
	if m.ReadOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	// What is mounted below the source keeps its own options.
	if err := setAttr(mount, 0, attr); err != nil {
		return err
	}
	if m.RecursiveReadOnly {
		if err := setAttr(mount, unix.AT_RECURSIVE, unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return err
		}
	}
	propagation := map[v1.MountPropagationMode]uint64{v1.MountPropagationNone: unix.MS_PRIVATE, v1.MountPropagationHostToContainer: unix.MS_SLAVE, v1.MountPropagationBidirectional: unix.MS_SHARED}
	return setAttr(mount, unix.AT_RECURSIVE, unix.MountAttr{Propagation: propagation[m.Propagation]})
}

// root is a root directory that is being put together.
type root struct {
	fd       int   // O_PATH
	standIns []int // tmpfs that stand in for directories, writable until the root is entered
}

// newRoot copies the host's mounts, on top of the root directory. This process still sees the one beneath.
func newRoot() (*root, error) {
	// Mounts keep on coming from the host, and going, but none gets there.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		if os.Geteuid() != 0 {
			return nil, fmt.Errorf("mounting is forbidden in this user namespace, see AppArmor's kernel.apparmor_restrict_unprivileged_userns: %w", err)
		}
		return nil, os.NewSyscallError("mount MS_SLAVE on /", err)
	}
	tree, err := cloneTree(unix.AT_FDCWD, "/", 0)
	if err != nil {
		return nil, fmt.Errorf("copy the host's mounts: %w", err)
	}
	if err := setAttr(tree, unix.AT_RECURSIVE, unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return nil, err
	}
	host, err := retrying(func() (int, error) { return unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: "/", Err: err}
	}
	if err := moveMount(tree, host); err != nil {
		return nil, fmt.Errorf("mount a copy of the host's mounts: %w", err)
	}
	r := &root{fd: tree}
	for _, dir := range asOnTheHost {
		mount, err := cloneTree(unix.AT_FDCWD, dir, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("copy the mount of %s: %w", dir, err)
		}
		if err := r.attach(source{mount: mount}, dir); err != nil {
			return nil, fmt.Errorf("mount the host's %s: %w", dir, err)
		}
	}
	return r, nil
}

// open opens a path, absolute, in the root. No symbolic link leads out of it.
func (r *root) open(name string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	return retrying(func() (int, error) { return unix.Openat2(r.fd, name, &how) })
}

// makeDestination makes the last element of name, and the directories that lead to it, where they are missing.
func (r *root) makeDestination(name string, directory, standIn bool) error {
	if name == "/" {
		return errors.New("a volume there would hide every program")
	}
	elements := strings.Split(strings.TrimPrefix(name, "/"), "/")
	for i := range elements {
		missing := "/" + path.Join(elements[:i+1]...)
		fd, err := r.open(missing)
		switch err {
		case nil:
			_ = unix.Close(fd)
		case unix.ENOENT:
			if err := r.make(missing, directory || i < len(elements)-1, standIn); err != nil {
				return &fs.PathError{Op: "make", Path: missing, Err: err}
			}
		default:
			return &fs.PathError{Op: "open", Path: missing, Err: err}
		}
	}
	return nil
}

func (r *root) make(name string, directory, standIn bool) error {
	parent, err := r.open(path.Dir(name))
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	err = makeIn(parent, path.Base(name), directory)
	if standIn && err == unix.EROFS {
		tmpfs, standErr := r.standIn(parent)
		if standErr != nil {
			return fmt.Errorf("put a tmpfs in place of %s: %w", path.Dir(name), standErr)
		}
		err = makeIn(tmpfs, path.Base(name), directory)
	}
	if err == unix.EEXIST {
		return errors.New("it is a symbolic link that leads nowhere")
	}
	return err
}

// makeIn makes what container runtimes make for a mount that has no place.
func makeIn(dir int, name string, directory bool) error {
	if directory {
		return unix.Mkdirat(dir, name, 0o755)
	}
	return unix.Mknodat(dir, name, unix.S_IFREG|0o644, 0)
}

// standIn covers the directory with a tmpfs in which each of its entries is bound. It returns a descriptor of the tmpfs,
// which stays open.
func (r *root) standIn(dir int) (int, error) {
	tmpfs, err := newTmpfs(dir)
	if err != nil {
		return -1, err
	}
	listed, err := retrying(func() (int, error) { return unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return -1, err
	}
	file := os.NewFile(uintptr(listed), ".")
	defer file.Close()
	entries, err := file.ReadDir(-1)
	if err != nil {
		return -1, err
	}
	isRoot, err := sameMountAndFile(dir, r.fd)
	if err != nil {
		return -1, err
	}
	if err := moveMount(tmpfs, dir); err != nil {
		return -1, err
	}
	r.standIns = append(r.standIns, tmpfs)
	for _, entry := range entries {
		// Dir is what is beneath the tmpfs, with what is mounted in it.
		if err := standInForEntry(dir, tmpfs, entry); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return -1, fmt.Errorf("its entry %q: %w", entry.Name(), err)
		}
	}
	if isRoot {
		r.fd = tmpfs
	}
	return tmpfs, nil
}

func newTmpfs(like int) (int, error) {
	var stat unix.Stat_t
	if err := unix.Fstatat(like, "", &stat, unix.AT_EMPTY_PATH); err != nil {
		return -1, err
	}
	config, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(config)
	options := map[string]string{"mode": fmt.Sprintf("%o", stat.Mode&0o7777)}
	if os.Geteuid() == 0 { // an ordinary user's namespace has one user
		options["uid"], options["gid"] = fmt.Sprint(stat.Uid), fmt.Sprint(stat.Gid)
	}
	for key, value := range options {
		if err := unix.FsconfigSetString(config, key, value); err != nil {
			return -1, fmt.Errorf("option %s=%s: %w", key, value, err)
		}
	}
	if err := unix.FsconfigCreate(config); err != nil {
		return -1, os.NewSyscallError("fsconfig", err)
	}
	tmpfs, err := unix.Fsmount(config, unix.FSMOUNT_CLOEXEC, 0)
	return tmpfs, os.NewSyscallError("fsmount", err)
}

func standInForEntry(dir, tmpfs int, entry fs.DirEntry) error {
	if entry.Type() == fs.ModeSymlink {
		target, err := readlinkat(dir, entry.Name())
		if err != nil {
			return err
		}
		return unix.Symlinkat(target, tmpfs, entry.Name())
	}
	mount, err := cloneTree(dir, entry.Name(), unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	if err := makeIn(tmpfs, entry.Name(), entry.IsDir()); err != nil {
		return err
	}
	place, err := retrying(func() (int, error) {
		return unix.Openat(tmpfs, entry.Name(), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return err
	}
	defer unix.Close(place)
	return moveMount(mount, place)
}

func readlinkat(dir int, name string) (string, error) {
	buffer := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buffer)
	if err != nil {
		return "", err
	}
	return string(buffer[:n]), nil
}

// attach puts the mount on its destination. What is missing on the way there is missing in a volume.
func (r *root) attach(s source, destination string) error {
	if err := r.makeDestination(destination, s.directory, false); err != nil {
		return err
	}
	place, err := r.open(destination)
	if err != nil {
		return err
	}
	defer unix.Close(place)
	err = moveMount(s.mount, place)
	if err == unix.ENOTDIR || err == unix.EINVAL {
		return fmt.Errorf("%w: is one of the two a directory, and the other a file?", err)
	}
	return err
}

// enter makes r the root directory of this process.
func (r *root) enter() error {
	for _, tmpfs := range r.standIns {
		if err := setAttr(tmpfs, 0, unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return err
		}
	}
	if err := unix.Fchdir(r.fd); err != nil {
		return os.NewSyscallError("fchdir", err)
	}
	// See pivot_root(2): the old root directory is then on top of the new one.
	if err := unix.PivotRoot(".", "."); err != nil {
		return os.NewSyscallError("pivot_root", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return os.NewSyscallError("umount2 of the old root directory", err)
	}
	return os.NewSyscallError("chdir", unix.Chdir("/"))
}

// cloneTree copies what is mounted at and below a place.
func cloneTree(dir int, name string, flags uint) (int, error) {
	return retrying(func() (int, error) {
		return unix.OpenTree(dir, name, flags|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_NO_AUTOMOUNT)
	})
}

func moveMount(mount, place int) error {
	_, err := retrying(func() (int, error) {
		return 0, unix.MoveMount(mount, "", place, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	})
	return err
}

func setAttr(mount int, flags uint, attr unix.MountAttr) error {
	err := unix.MountSetattr(mount, "", flags|unix.AT_EMPTY_PATH, &attr)
	if err == unix.ENOSYS {
		return fmt.Errorf("needs Linux 5.12 or later: %w", os.NewSyscallError("mount_setattr", err))
	}
	return os.NewSyscallError("mount_setattr", err)
}

func sameMountAndFile(a, b int) (bool, error) {
	stats := make([]unix.Statx_t, 2)
	for i, fd := range []int{a, b} {
		if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_MNT_ID, &stats[i]); err != nil {
			return false, os.NewSyscallError("statx", err)
		}
	}
	return stats[0].Ino == stats[1].Ino && stats[0].Mnt_id == stats[1].Mnt_id, nil
}

// retrying repeats a call that a signal interrupted, or that lost a race against a rename (EAGAIN of openat2).
func retrying(call func() (int, error)) (int, error) {
	for {
		if fd, err := call(); !slices.Contains([]error{unix.EINTR, unix.EAGAIN}, err) {
			return fd, err
		}
	}
}
