// SPDX-License-Identifier: Apache-2.0

package projectquota

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/descent"
)

// walkers is how many goroutines go through a directory.
const walkers = 2

// assign has the directory, and everything in it, belong to the project or to none any more. What belongs to another project
// stays in that where it is taken out. The directory comes first, so that what is made meanwhile is right.
func assign(fd int, dir string, id uint32, member bool) error {
	a := &assignment{id: id, member: member}
	if err := a.apply(fd); err != nil {
		return fmt.Errorf("%s %s: %w", a, dir, err)
	}
	root, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	visitors := make([]descent.Visitor, walkers)
	for i := range visitors {
		visitors[i] = a
	}
	descent.Walk(root, dir, visitors, func() bool { return false })
	return a.failed
}

// assignment is a [descent.Visitor] for several goroutines at once.
type assignment struct {
	id     uint32
	member bool

	mu     sync.Mutex
	failed error // the first failure
}

// String returns the words that an error begins with.
func (a *assignment) String() string {
	if a.member {
		return fmt.Sprintf("give to project %d:", a.id)
	}
	return fmt.Sprintf("take out of project %d:", a.id)
}

// Enter gives a directory to the project before what is in it is read.
func (a *assignment) Enter(dir descent.Directory) {
	if err := a.apply(dir.FD); err != nil {
		a.Fail("ioctl", dir.Path(), err)
	}
}

// Visit gives what is no directory to the project.
func (a *assignment) Visit(dir descent.Directory, e descent.Entry) bool {
	switch e.Type {
	case unix.DT_DIR:
		return true
	case unix.DT_REG, unix.DT_UNKNOWN:
		isDir, err := a.file(dir.FD, e.Name())
		if err != nil && !descent.Gone(err) {
			a.Fail("assign", dir.Path()+"/"+e.Name(), err)
		}
		return isDir
	}
	if err := a.special(dir.FD, e.Name()); err != nil && !descent.Gone(err) {
		a.Fail("file_setattr", dir.Path()+"/"+e.Name(), err)
	}
	return false
}

// Fail keeps the first failure.
func (a *assignment) Fail(call, path string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed == nil {
		a.failed = fmt.Errorf("%s %s %q: %w", a, call, path, err)
	}
}

// file works on a file that was regular when the directory was read. It is opened only when it is known to be one still: opening
// a device or a FIFO that was put in its place might do something.
func (a *assignment) file(dir int, name string) (isDir bool, err error) {
	fd, err := descent.Open(dir, name, unix.O_PATH)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return true, nil
	case unix.S_IFREG:
	default:
		return false, a.special(dir, name)
	}
	file, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(file)
	return false, a.apply(file)
}

// apply works on what is open.
func (a *assignment) apply(fd int) error {
	is, err := attributesOf(fd)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	becomes, ok := a.change(is, st.Mode&unix.S_IFMT == unix.S_IFDIR)
	if !ok {
		return nil
	}
	return ioctl(fd, setAttributes, &becomes)
}

// change returns what the attributes are to become, false if they are that.
func (a *assignment) change(is attributes, isDir bool) (becomes attributes, ok bool) {
	becomes = is
	switch {
	case a.member:
		becomes.project = a.id
		if isDir {
			becomes.flags |= inherit
		}
	case is.project == a.id:
		becomes.project, becomes.flags = 0, is.flags&^inherit
	}
	return becomes, becomes != is
}

// file_getattr(2) and file_setattr(2), of Linux 6.17. The numbers are those of all architectures.
const (
	sysFileGetattr = 468
	sysFileSetattr = 469
)

// fileAttributes are struct file_attr.
type fileAttributes struct {
	flags                                       uint64
	extentSize, extents, project, cowExtentSize uint32
}

// special works on what cannot be opened without doing something to it. Where Linux has no way to, it does nothing.
func (a *assignment) special(dir int, name string) error {
	path, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	var is fileAttributes
	call := func(number uintptr) error {
		for {
			_, _, errno := unix.Syscall6(number, uintptr(dir), uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&is)),
				unsafe.Sizeof(is), unix.AT_SYMLINK_NOFOLLOW, 0)
			switch errno {
			case 0:
				return nil
			case unix.EINTR:
			default:
				return errno
			}
		}
	}
	if err := call(sysFileGetattr); err != nil {
		return without(err)
	}
	if is.project == a.id == a.member {
		return nil
	}
	is.project = 0
	if a.member {
		is.project = a.id
	}
	return without(call(sysFileSetattr))
}

// without makes nothing of an error that says that there is no such call, for this file or at all.
func without(err error) error {
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EPERM) {
		return nil
	}
	return err
}
