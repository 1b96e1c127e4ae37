// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"context"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
	"k8s.io/utils/exec"

	"github.com/volumekit/volumekit/internal/abandon"
	"github.com/volumekit/volumekit/internal/program"
)

// Grow makes the file system as large as its device. It succeeds where that is so already.
//
// One that is mounted at mountPoint is grown by the kernel, with no program. With an empty mountPoint an ext2, ext3 or ext4 is
// checked whole by e2fsck -f -p and grown by resize2fs, which x runs (nil stands for running them directly), on a block device or
// in a regular file; an xfs or btrfs on a block device is mounted for a moment where nobody sees it.
//
// A mounted ext2, ext3 or ext4 is grown only for a process that has the capability CAP_SYS_RESOURCE in the initial user namespace;
// for others the error matches [io/fs.ErrPermission]. The kernel resizes a btrfs to no less than 256 MiB.
//
// The error matches [ErrInvalid] if the device is not what is mounted at mountPoint, or for another type; [ErrInUse] if the device
// is mounted and mountPoint is empty; [ErrNeedsMount] for an xfs or btrfs in a regular file; [ErrNeedsRepair] if e2fsck says so. When
// ctx ends, the kernel may still be growing the file system: repeat the call to see.
func Grow(ctx context.Context, x exec.Interface, device, mountPoint, fsType string) error {
	if err := grow(ctx, x, device, mountPoint, fsType); err != nil {
		return fmt.Errorf("grow the %s on %s: %w", fsType, device, err)
	}
	return nil
}

func grow(ctx context.Context, x exec.Interface, device, mountPoint, fsType string) error {
	grower, ok := growers[fsType]
	if !ok {
		return invalid("file systems of the type %q are not grown here; supported are ext4, ext3, ext2, xfs and btrfs", fsType)
	}
	if err := checkPath(device); err != nil {
		return err
	}
	if mountPoint == "" {
		if fsType != "xfs" && fsType != "btrfs" {
			return growExtOffline(ctx, x, device)
		}
		if err := checkUnused(ctx, device); err != nil {
			return err
		}
	}
	_, err := abandon.Run(ctx, func() (struct{}, error) {
		d, err := open(device, unix.O_RDONLY)
		if err != nil {
			return struct{}{}, err
		}
		defer d.file.Close()
		root, err := openMounted(d, mountPoint, fsType)
		if err != nil {
			return struct{}{}, err
		}
		defer root.Close()
		return struct{}{}, grower(int(root.Fd()), d)
	})
	return err
}

// growers grow a file system by the descriptor of its root directory to the size of the device.
var growers = map[string]func(root int, d *device) error{
	"ext2": growExt, "ext3": growExt, "ext4": growExt,
	"xfs": growXFS, "btrfs": growBtrfs,
}

// openMounted opens the root of the file system, which is mounted for as long as that is open if mountPoint is empty.
func openMounted(d *device, mountPoint, fsType string) (*os.File, error) {
	if !d.block {
		if mountPoint == "" {
			return nil, &kindError{ErrNeedsMount, fmt.Errorf("%s in a regular file can be grown through a loop device only", fsType)}
		}
		return nil, invalid("it is not a block device, so it is not what is mounted at %s", mountPoint)
	}
	if mountPoint == "" {
		return mountDetached(d.file.Name(), fsType)
	}
	if err := checkPath(mountPoint); err != nil {
		return nil, err
	}
	fd, err := unix.Open(mountPoint, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: mountPoint, Err: err}
	}
	root := os.NewFile(uintptr(fd), mountPoint)
	// btrfs has device numbers of its own; there the kernel is asked which devices it consists of.
	if fsType != "btrfs" {
		var mounted, node unix.Stat_t
		if err := errors.Join(unix.Fstat(fd, &mounted), unix.Fstat(int(d.file.Fd()), &node)); err != nil {
			root.Close()
			return nil, os.NewSyscallError("fstat", err)
		}
		if mounted.Dev != node.Rdev {
			root.Close()
			return nil, invalid("it is not the device that is mounted at %s", mountPoint)
		}
	}
	return root, nil
}

// mountDetached mounts the device at no place. It is unmounted when the file is closed.
func mountDetached(device, fsType string) (*os.File, error) {
	fs, err := unix.Fsopen(fsType, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("fsopen "+fsType, err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigSetString(fs, "source", device); err != nil {
		return nil, os.NewSyscallError("fsconfig source", err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return nil, fmt.Errorf("mount it for a moment: %w", err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("fsmount", err)
	}
	defer unix.Close(fd)
	root, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("open the root", err)
	}
	return os.NewFile(uintptr(root), device), nil
}

func ioctl(fd int, name string, request uintptr, arg unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		case unix.EBUSY:
			return &kindError{ErrInUse, errors.New("it is being resized already")}
		default:
			return os.NewSyscallError("ioctl "+name, errno)
		}
	}
}

// growExt: fs/ext4/ioctl.c.
func growExt(root int, d *device) error {
	const resizeFS = 0x40086610 // EXT4_IOC_RESIZE_FS
	var fs unix.Statfs_t
	if err := unix.Fstatfs(root, &fs); err != nil {
		return os.NewSyscallError("fstatfs", err)
	}
	if uint32(fs.Type) != unix.EXT4_SUPER_MAGIC {
		return invalid("what is mounted is not an ext2, ext3 or ext4")
	}
	if err := d.readCache(); err != nil {
		return err
	}
	if full, err := extFills(d); full || err != nil {
		return err
	}
	blocks := uint64(d.size / int64(fs.Bsize))
	err := ioctl(root, "EXT4_IOC_RESIZE_FS", resizeFS, unsafe.Pointer(&blocks))
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("growing one that is mounted takes the capability CAP_SYS_RESOURCE in the initial user namespace, "+
			"and one without errors: %w", err)
	}
	return err
}

// xfsGeometry is struct xfs_fsop_geom_v1 of fs/xfs/libxfs/xfs_fs.h.
type xfsGeometry struct {
	BlockSize    uint32
	_            [6]uint32
	InodePercent uint32
	DataBlocks   uint64
	_            [3]uint64
	_            [16]byte // UUID
	_            [8]uint32
}

// xfsGrowth is struct xfs_growfs_data.
type xfsGrowth struct {
	Blocks       uint64
	InodePercent uint32
	_            uint32
}

// xfsSmallest is the least number of blocks that the kernel adds as an allocation group.
const xfsSmallest = 64

func growXFS(root int, d *device) error {
	const geometryV1, growData = 0x80705864, 0x4010586e // XFS_IOC_FSGEOMETRY_V1, XFS_IOC_FSGROWFSDATA
	var fs unix.Statfs_t
	if err := unix.Fstatfs(root, &fs); err != nil {
		return os.NewSyscallError("fstatfs", err)
	}
	if uint32(fs.Type) != unix.XFS_SUPER_MAGIC {
		return invalid("what is mounted is not an xfs")
	}
	var is xfsGeometry
	if err := ioctl(root, "XFS_IOC_FSGEOMETRY", geometryV1, unsafe.Pointer(&is)); err != nil {
		return err
	}
	blocks := uint64(d.size) / uint64(is.BlockSize)
	if blocks < is.DataBlocks {
		return fmt.Errorf("the device, of %d bytes, is smaller than the file system", d.size)
	}
	if blocks == is.DataBlocks {
		return nil
	}
	growth := xfsGrowth{Blocks: blocks, InodePercent: is.InodePercent}
	err := ioctl(root, "XFS_IOC_FSGROWFSDATA", growData, unsafe.Pointer(&growth))
	if errors.Is(err, unix.EINVAL) && blocks-is.DataBlocks < xfsSmallest {
		return nil // so little that nothing can be made of it
	}
	return err
}

// btrfsFS is struct btrfs_ioctl_fs_info_args of include/uapi/linux/btrfs.h.
type btrfsFS struct {
	MaxID, Devices uint64
	_              [1024 - 16]byte
}

// btrfsDevice is struct btrfs_ioctl_dev_info_args.
type btrfsDevice struct {
	ID    uint64
	_     [16]byte
	_     uint64
	Total uint64
	_     [379]uint64
	Path  [1024]byte
}

// btrfsResize is struct btrfs_ioctl_vol_args.
type btrfsResize struct {
	_    int64
	What [4088]byte
}

// btrfsLeast is the smallest size that the kernel lets a device be resized to.
const btrfsLeast = 256 << 20

func growBtrfs(root int, d *device) error {
	const fsInfo, deviceInfo, resize = 0x8400941f, 0xd000941e, 0x50009403 // BTRFS_IOC_FS_INFO, _DEV_INFO, _RESIZE
	var fs unix.Statfs_t
	if err := unix.Fstatfs(root, &fs); err != nil {
		return os.NewSyscallError("fstatfs", err)
	}
	if uint32(fs.Type) != unix.BTRFS_SUPER_MAGIC {
		return invalid("what is mounted is not a btrfs")
	}
	var is btrfsFS
	if err := ioctl(root, "BTRFS_IOC_FS_INFO", fsInfo, unsafe.Pointer(&is)); err != nil {
		return err
	}
	for id := uint64(1); id <= is.MaxID; id++ {
		part := btrfsDevice{ID: id}
		err := ioctl(root, "BTRFS_IOC_DEV_INFO", deviceInfo, unsafe.Pointer(&part))
		if errors.Is(err, unix.ENODEV) {
			continue // it was removed once
		}
		if err != nil {
			return err
		}
		same, err := d.isAt(text(part.Path[:]))
		if err != nil {
			return err
		}
		if !same {
			continue
		}
		size := uint64(d.size)
		switch {
		case size < part.Total: // it would be shrunk
			return fmt.Errorf("the device, of %d bytes, is smaller than the file system", d.size)
		case size-part.Total < placeSize:
			return nil
		case d.size < btrfsLeast:
			return fmt.Errorf("the kernel resizes a btrfs to 256 MiB or more only, and the device has %d bytes", d.size)
		}
		var what btrfsResize
		copy(what.What[:], fmt.Sprintf("%d:max", id))
		return ioctl(root, "BTRFS_IOC_RESIZE", resize, unsafe.Pointer(&what))
	}
	return invalid("it is not a device of the btrfs that is mounted there")
}

// isAt says whether the path leads to this block device.
func (d *device) isAt(path string) (bool, error) {
	var there, here unix.Stat_t
	if err := unix.Fstat(int(d.file.Fd()), &here); err != nil {
		return false, os.NewSyscallError("fstat", err)
	}
	if err := unix.Stat(path, &there); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return false, nil
		}
		return false, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return there.Mode&unix.S_IFMT == unix.S_IFBLK && there.Rdev == here.Rdev, nil
}

// growExtOffline checks the whole file system first, without which resize2fs refuses.
func growExtOffline(ctx context.Context, x exec.Interface, path string) error {
	full, err := abandon.Run(ctx, func() (bool, error) {
		d, err := open(path, unix.O_RDONLY)
		if err != nil {
			return false, err
		}
		defer d.file.Close()
		return extFills(d)
	})
	if full || err != nil {
		return err
	}
	if err := checkUnused(ctx, path); err != nil {
		return err
	}
	if _, err := e2fsck(ctx, x, "-f", "-p", path); err != nil {
		return err
	}
	_, err = program.Run(ctx, x, "resize2fs", path)
	return err
}

// extFills says whether the file system has the size of the device already.
func extFills(d *device) (bool, error) {
	s := &source{ctx: context.Background(), r: d, size: d.size}
	sb, err := s.at(extOffset, extSize)
	if err != nil {
		return false, err
	}
	if sb == nil || !isExt(sb) || !extPlausible(sb) {
		return false, errors.New("there is no ext2, ext3 or ext4")
	}
	end, err := extEnd(s)
	if err != nil {
		return false, err
	}
	if end > d.size {
		return false, fmt.Errorf("the device, of %d bytes, is smaller than the file system", d.size)
	}
	return end > d.size-1024<<little.Uint32(sb[0x18:]), nil
}
