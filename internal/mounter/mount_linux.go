// SPDX-License-Identifier: Apache-2.0

package mounter

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

func (m *Mounter) mount(source, target, fstype string, plain, sensitive []string) error {
	opts, err := parseOptions(plain, sensitive)
	if err == nil {
		err = m.mountParsed(source, target, fstype, &opts)
	}
	if err == nil {
		return nil
	}
	doing := fmt.Sprintf("mount %q of type %q on", source, fstype)
	switch {
	case opts.remount, opts.onlyPropagation(fstype):
		doing = "change the mount on"
	case opts.bind:
		doing = fmt.Sprintf("bind %q on", source)
	}
	return fmt.Errorf("%s %q (options %q): %w%s", doing, target, opts.String(), err, hint(err))
}

// hint is what a user can do about err.
func hint(err error) string {
	if errors.Is(err, unix.EPERM) && !mayMount() {
		return "; mounting needs root (CAP_SYS_ADMIN)"
	}
	return ""
}

func (m *Mounter) mountParsed(source, target, fstype string, opts *options) error {
	if err := checkNames(source, target, fstype); err != nil {
		return err
	}
	switch {
	case opts.remount:
		return remount(target, opts)
	case opts.bind:
		return bind(source, target, opts)
	case opts.onlyPropagation(fstype):
		return propagate(target, opts)
	case fstype == "" || fstype == "auto":
		return fmt.Errorf("the type of the file system is not given, and is not guessed: %w", unix.EINVAL)
	}
	if helper, ok := m.findHelper(fstype); ok {
		return runHelper(helper, source, target, fstype, opts)
	}
	return mountFilesystem(source, target, fstype, opts)
}

// checkNames refuses what a helper program, or whoever reads an error, could take for something else.
func checkNames(source, target, fstype string) error {
	for _, name := range []struct{ what, is string }{{"source", source}, {"target", target}, {"file system type", fstype}} {
		if strings.HasPrefix(name.is, "-") {
			return fmt.Errorf("the %s begins with \"-\", like an option of a command: %w", name.what, unix.EINVAL)
		}
	}
	if target == "" {
		return fmt.Errorf("the target is empty: %w", unix.ENOENT)
	}
	if strings.ContainsAny(fstype, "/\x00, \t\n") {
		return fmt.Errorf("this is not a type of file system: %w", unix.EINVAL)
	}
	return nil
}

// mountFilesystem mounts a file system by its type.
func mountFilesystem(source, target, fstype string, opts *options) error {
	withFDs := func() error { return newFilesystem(source, target, fstype, opts) }
	byPath := func() error { return newFilesystemMount2(source, target, fstype, opts) }
	var err error
	if len(source) > maxValue || !opts.fitsFsconfig() {
		err = byPath()
	} else {
		err = orMount2(withFDs, byPath)
	}
	if errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("%w; neither the kernel, with the modules that it has, nor a program mount.%s can mount this", err, fstype)
	}
	return err
}

func newFilesystem(source, target, fstype string, opts *options) error {
	base, subtype, hasSubtype := strings.Cut(fstype, ".") // "fuse.sshfs"
	fd, err := unix.Fsopen(base, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(fd)
	fc := fsContext{fd: fd, opts: opts}
	if hasSubtype {
		if err := fc.set(option{text: "subtype=" + subtype, key: "subtype", value: subtype}); err != nil {
			return err
		}
	}
	if source != "" {
		if err := fc.set(option{text: "source=" + source, key: "source", value: source}); err != nil {
			return err
		}
	}
	for _, p := range opts.parameters() {
		if err := fc.set(p); err != nil {
			return err
		}
	}
	if err := unix.FsconfigCreate(fd); err != nil {
		return fc.explain("create the file system", err)
	}
	mount, err := unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, int(opts.attrSet))
	if err != nil {
		return fc.explain("fsmount", err)
	}
	defer unix.Close(mount)
	return attach(mount, target, opts)
}

// bind makes a bind mount.
func bind(source, target string, opts *options) error {
	if err := opts.checkBind(); err != nil {
		return err
	}
	return orMount2(func() error {
		return newBind(source, target, opts)
	}, func() error {
		return newBindMount2(source, target, opts)
	})
}

func newBind(source, target string, opts *options) error {
	flags := uint(unix.OPEN_TREE_CLONE)
	if opts.recursive {
		flags |= unix.AT_RECURSIVE
	}
	mount, err := openTree(source, flags)
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	// What the source's mount forbids stays forbidden. That options about access times change the mode is no permission.
	attr := unix.MountAttr{Attr_set: opts.attrSet, Attr_clr: opts.attrClear & unix.MOUNT_ATTR__ATIME}
	if err := setattr(mount, &attr); err != nil {
		return err
	}
	return attach(mount, target, opts)
}

// attach puts a mount that is nowhere yet on target, and sets the propagation, which a mount gets from its parent before.
func attach(mount int, target string, opts *options) error {
	const flags = unix.MOVE_MOUNT_F_EMPTY_PATH | unix.MOVE_MOUNT_T_SYMLINKS
	err := ignoringEINTR(func() error { return unix.MoveMount(mount, "", unix.AT_FDCWD, target, flags) })
	if err == unix.EINVAL && oneIsADirectory(mount, target) {
		err = unix.ENOTDIR // as mount(2) has it
	}
	if err != nil {
		return &os.PathError{Op: "move_mount to", Path: target, Err: err}
	}
	if err := setPropagation(mount, opts); err != nil {
		// By the descriptor: target may be another's by now.
		detachErr := unix.Unmount(fmt.Sprintf("/proc/self/fd/%d", mount), unix.MNT_DETACH)
		return errors.Join(err, os.NewSyscallError("undo the mount: umount2", detachErr))
	}
	return nil
}

// oneIsADirectory tells whether one of mount and target is a directory and the other one is not.
func oneIsADirectory(mount int, target string) bool {
	var root, place unix.Statx_t
	const flags = unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	if unix.Statx(mount, "", flags|unix.AT_EMPTY_PATH, unix.STATX_TYPE, &root) != nil ||
		unix.Statx(unix.AT_FDCWD, target, flags, unix.STATX_TYPE, &place) != nil {
		return false
	}
	return (root.Mode&unix.S_IFMT == unix.S_IFDIR) != (place.Mode&unix.S_IFMT == unix.S_IFDIR)
}

// remount changes the mount on target, and with it the file system unless "bind" is among the options.
func remount(target string, opts *options) error {
	if opts.bind {
		if err := opts.checkBind(); err != nil {
			return err
		}
	}
	withFDs := func() error { return change(target, opts) }
	byPath := func() error { return changeMount2(target, opts) }
	if !opts.fitsFsconfig() {
		return explainNotMounted(target, byPath())
	}
	return explainNotMounted(target, orMount2(withFDs, byPath))
}

func change(target string, opts *options) error {
	mount, err := openTree(target, 0)
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	if parameters := opts.parameters(); len(parameters) > 0 && !opts.bind {
		if err := reconfigure(mount, parameters, opts); err != nil {
			return err
		}
	}
	attr := unix.MountAttr{Attr_set: opts.attrSet, Attr_clr: opts.attrClear}
	if err := setattr(mount, &attr); err != nil {
		return err
	}
	return setPropagation(mount, opts)
}

func reconfigure(mount int, parameters []option, opts *options) error {
	fd, err := unix.Fspick(mount, "", unix.FSPICK_CLOEXEC|unix.FSPICK_EMPTY_PATH)
	if err != nil {
		return os.NewSyscallError("fspick", err)
	}
	defer unix.Close(fd)
	fc := fsContext{fd: fd, opts: opts}
	for _, p := range parameters {
		if err := fc.set(p); err != nil {
			return err
		}
	}
	if err := unix.FsconfigReconfigure(fd); err != nil {
		return fc.explain("reconfigure the file system", err)
	}
	return nil
}

func setattr(mount int, attr *unix.MountAttr) error {
	if *attr == (unix.MountAttr{}) {
		return nil
	}
	return os.NewSyscallError("mount_setattr", unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, attr))
}

// propagate changes the propagation of the mount on target.
func propagate(target string, opts *options) error {
	err := orMount2(func() error {
		mount, err := openTree(target, 0)
		if err != nil {
			return err
		}
		defer unix.Close(mount)
		return setPropagation(mount, opts)
	}, func() error {
		return propagateMount2(target, opts)
	})
	return explainNotMounted(target, err)
}

func setPropagation(mount int, opts *options) error {
	for _, p := range opts.propagation {
		flags := uint(unix.AT_EMPTY_PATH)
		if p.recursive {
			flags |= unix.AT_RECURSIVE
		}
		attr := unix.MountAttr{Propagation: uint64(p.flag)}
		if err := unix.MountSetattr(mount, "", flags, &attr); err != nil {
			return os.NewSyscallError("mount_setattr for the propagation", err)
		}
	}
	return nil
}

// openTree opens what path leads to, or with OPEN_TREE_CLONE a copy of its mount.
func openTree(path string, flags uint) (fd int, err error) {
	err = ignoringEINTR(func() (err error) {
		fd, err = unix.OpenTree(unix.AT_FDCWD, path, flags|unix.OPEN_TREE_CLOEXEC)
		return err
	})
	if err != nil {
		return -1, &os.PathError{Op: "open_tree", Path: path, Err: err}
	}
	return fd, nil
}

// explainNotMounted says what EINVAL means for a mount that was to be changed, if it means that.
func explainNotMounted(target string, err error) error {
	if errors.Is(err, unix.EINVAL) {
		if mounted, statErr := isMountPoint(target); statErr == nil && !mounted {
			return fmt.Errorf("%w: nothing is mounted there", err)
		}
	}
	return err
}

// ignoringEINTR repeats a call that a signal interrupted: the Go runtime sends them, and some file systems (FUSE) do not
// restart calls by themselves.
func ignoringEINTR(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
