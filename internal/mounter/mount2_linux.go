// SPDX-License-Identifier: Apache-2.0

package mounter

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// orMount2 calls withFDs, which uses the mount calls that work on descriptors (Linux 5.2; mount_setattr 5.12), and byPath,
// which uses mount(2), where the kernel lacks those or a seccomp filter forbids them.
func orMount2(withFDs, byPath func() error) error {
	err := withFDs()
	missing := errors.Is(err, unix.ENOSYS)
	// Filters that are older than the calls answer EPERM, and so does the kernel to whom may not mount, or not this.
	forbidden := errors.Is(err, unix.EPERM) && mayMount()
	if !missing && !forbidden {
		return err
	}
	byPathErr := byPath()
	if forbidden && errors.Is(byPathErr, unix.EPERM) {
		return err // with the kernel's own words, perhaps
	}
	return byPathErr
}

// mayMount tells whether this thread has CAP_SYS_ADMIN. If it cannot tell, it says that it has.
func mayMount() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // 64 capabilities
	if err := unix.Capget(&header, &data[0]); err != nil {
		return true
	}
	return data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

func newFilesystemMount2(source, target, fstype string, opts *options) error {
	if source == "" {
		source = "none" // as mount(8) calls it
	}
	if err := mount2(source, target, fstype, opts.flagSet, opts.data()); err != nil {
		return err
	}
	return propagateOrUnmount(target, opts)
}

// newBindMount2 has to make the mount before it can change it.
func newBindMount2(source, target string, opts *options) error {
	flags := uintptr(unix.MS_BIND)
	if opts.recursive {
		flags |= unix.MS_REC
	}
	if err := mount2(source, target, "", flags, ""); err != nil {
		return err
	}
	if opts.flagSet != 0 {
		added := *opts
		added.flagClear &= allATime
		if err := remountMount2(target, unix.MS_BIND, &added); err != nil {
			return errors.Join(err, undoMount2(target))
		}
	}
	return propagateOrUnmount(target, opts)
}

func changeMount2(target string, opts *options) error {
	var flags uintptr
	if opts.bind {
		flags = unix.MS_BIND
	}
	if err := remountMount2(target, flags, opts); err != nil {
		return err
	}
	return propagateMount2(target, opts)
}

// remountMount2 adds the flags that the mount has to those of the options, as mount(2) would drop them.
func remountMount2(target string, flags uintptr, opts *options) error {
	var stat unix.Statfs_t
	if err := ignoringEINTR(func() error { return unix.Statfs(target, &stat) }); err != nil {
		return &os.PathError{Op: "statfs", Path: target, Err: err}
	}
	has := uintptr(0)
	for st, ms := range map[int64]uintptr{
		unix.ST_RDONLY:      unix.MS_RDONLY,
		unix.ST_NOSUID:      unix.MS_NOSUID,
		unix.ST_NODEV:       unix.MS_NODEV,
		unix.ST_NOEXEC:      unix.MS_NOEXEC,
		unix.ST_SYNCHRONOUS: unix.MS_SYNCHRONOUS,
		unix.ST_MANDLOCK:    unix.MS_MANDLOCK,
		unix.ST_NOATIME:     unix.MS_NOATIME,
		unix.ST_NODIRATIME:  unix.MS_NODIRATIME,
		unix.ST_RELATIME:    unix.MS_RELATIME,
		stNoSymfollow:       unix.MS_NOSYMFOLLOW,
	} {
		if int64(stat.Flags)&st != 0 {
			has |= ms
		}
	}
	if has&(unix.MS_NOATIME|unix.MS_RELATIME) == 0 {
		has |= unix.MS_STRICTATIME
	}
	data := ""
	if flags&unix.MS_BIND == 0 {
		data = opts.data()
	}
	return mount2("none", target, "", flags|unix.MS_REMOUNT|has&^opts.flagClear|opts.flagSet, data)
}

// stNoSymfollow is ST_NOSYMFOLLOW of Linux 5.10 (include/linux/statfs.h), which x/sys lacks.
const stNoSymfollow = 0x2000

func propagateMount2(target string, opts *options) error {
	for _, p := range opts.propagation {
		flags := p.flag
		if p.recursive {
			flags |= unix.MS_REC
		}
		if err := mount2("none", target, "", flags, ""); err != nil {
			return err
		}
	}
	return nil
}

func propagateOrUnmount(target string, opts *options) error {
	if err := propagateMount2(target, opts); err != nil {
		return errors.Join(err, undoMount2(target))
	}
	return nil
}

func undoMount2(target string) error {
	if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
		return &os.PathError{Op: "undo the mount: umount2", Path: target, Err: err}
	}
	return nil
}

func mount2(source, target, fstype string, flags uintptr, data string) error {
	err := ignoringEINTR(func() error { return unix.Mount(source, target, fstype, flags, data) })
	return os.NewSyscallError("mount(2)", err)
}

// data returns the parameters of this type of file system; mount(2) takes the others as flags.
func (o *options) data() string {
	var texts []string
	for _, p := range o.all {
		if p.scope == ofType {
			texts = append(texts, p.text)
		}
	}
	return strings.Join(texts, ",")
}
