// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/abandon"
)

// Probe says what is on the block device, or in the regular file, at the absolute path, which may be a symbolic link. It reads
// past the kernel's cache of the device, so that it sees what others wrote. An error means that it is not known: the device
// could not be read, is of size 0, or did not answer before ctx ended.
//
// Blank is proved by this: of a device of up to 4 GiB every byte is zero. Of a larger one the first and the last 4 MiB are zero, and
// so is wherever a copy of the superblock of an ext2, ext3, ext4, xfs or btrfs, of a LUKS header or of a partition table is by
// default, and the beginning of each of 32 equal parts: data that lies in none of these is not seen. A regular file in which nothing
// is allocated is blank too. A loop device is blank only if its file can be seen to be as large as it.
func Probe(ctx context.Context, path string) (Content, error) {
	content, err := abandon.Run(ctx, func() (Content, error) { return probe(ctx, path) })
	if err != nil {
		return Content{}, fmt.Errorf("find out what is on %s: %w", path, err)
	}
	return content, nil
}

func probe(ctx context.Context, path string) (Content, error) {
	d, err := open(path, unix.O_RDONLY)
	if err != nil {
		return Content{}, err
	}
	defer d.file.Close()
	if d.size == 0 {
		return Content{}, errors.New("its size is 0")
	}
	if d.hollow() {
		return Content{Blank: true}, nil
	}
	content, err := examine(ctx, d, d.size)
	if content.Blank && err == nil {
		err = d.checkBacking()
	}
	if err != nil {
		return Content{}, err
	}
	return content, nil
}

// Size returns the size of a block device or a regular file in bytes.
func Size(path string) (int64, error) {
	d, err := open(path, unix.O_RDONLY)
	if err != nil {
		return 0, fmt.Errorf("size of %s: %w", path, err)
	}
	defer d.file.Close()
	return d.size, nil
}

// device is an open block device or regular file.
type device struct {
	file   *os.File
	block  bool
	direct bool // reads do not go through the kernel's cache, and have to be aligned
	size   int64
}

// open opens it, with O_RDONLY or O_RDWR.
func open(path string, mode int) (*device, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	// Not blocking: a pipe must not keep us waiting until it turns out to be one.
	fd, err := unix.Open(path, mode|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, os.NewSyscallError("open", err)
	}
	d := &device{file: os.NewFile(uintptr(fd), path)}
	if err := d.inspect(); err != nil {
		d.file.Close()
		return nil, err
	}
	return d, nil
}

func (d *device) inspect() error {
	fd := int(d.file.Fd())
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		d.size = stat.Size
		return nil
	case unix.S_IFBLK:
	default:
		return &kindError{ErrInvalid, errors.New("it is neither a block device nor a regular file")}
	}
	d.block = true
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.BLKGETSIZE64, uintptr(unsafe.Pointer(&d.size))); errno != 0 {
		return os.NewSyscallError("ioctl BLKGETSIZE64", errno)
	}
	// A device without direct reads is read as it can be.
	d.direct = unix.SetNonblock(fd, false) == nil && setDirect(fd, true) == nil
	return nil
}

func setDirect(fd int, on bool) error {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	flags &^= unix.O_DIRECT
	if on {
		flags |= unix.O_DIRECT
	}
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags)
	return os.NewSyscallError("fcntl", err)
}

// readCache has what follows read through the kernel's cache of the device, where the superblock of a mounted file system is
// newer than on the device.
func (d *device) readCache() error {
	if !d.direct {
		return nil
	}
	d.direct = false
	return setDirect(int(d.file.Fd()), false)
}

// hollow says whether this is a regular file of which it is certain that nothing is in it, since nothing is allocated. Other
// file systems than these have been seen to call a hole what had not been written back yet.
func (d *device) hollow() bool {
	if d.block {
		return false
	}
	fd := int(d.file.Fd())
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) != nil {
		return false
	}
	switch uint32(fs.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC:
	default:
		return false
	}
	_, err := unix.Seek(fd, 0, unix.SEEK_DATA)
	return errors.Is(err, unix.ENXIO)
}

// align is what direct reads are aligned to: no sector is larger than a page.
const align = 4096

// ReadAt reads as [io.ReaderAt] says.
func (d *device) ReadAt(p []byte, offset int64) (int, error) {
	if !d.direct {
		return d.file.ReadAt(p, offset)
	}
	start := offset &^ (align - 1)
	end := (offset + int64(len(p)) + align - 1) &^ (align - 1)
	buffer := aligned(int(end - start))
	read := 0
	for read < len(buffer) {
		n, err := unix.Pread(int(d.file.Fd()), buffer[read:], start+int64(read))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, os.NewSyscallError("pread", err)
		}
		read += n
		if n == 0 || n%512 != 0 || start+int64(read) >= d.size { // the end of the device
			break
		}
	}
	skip := int(offset - start)
	if read <= skip {
		return 0, io.EOF
	}
	n := copy(p, buffer[skip:read])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// aligned returns n bytes whose address is aligned.
func aligned(n int) []byte {
	p := make([]byte, n+align)
	skip := -int(uintptr(unsafe.Pointer(&p[0]))) & (align - 1)
	return p[skip : skip+n : skip+n]
}
