// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
	"k8s.io/utils/exec"

	"github.com/volumekit/volumekit/internal/abandon"
	"github.com/volumekit/volumekit/internal/program"
)

// Check checks the file system on a block device, or in a regular file, before it is mounted, and repairs what can be repaired
// without anybody's decision. It may write, so a device that is to be mounted read-only is not for it. A file system that was
// unmounted, or has a journal, takes no time. x runs e2fsck; nil stands for running it directly.
//
// ext2, ext3 and ext4 are checked by e2fsck -p. xfs and btrfs need nothing before they are mounted: they replay their logs by
// themselves then, and their fsck programs do nothing.
//
// The error matches [ErrNeedsRepair] for damage that a person has to look at, and holds what e2fsck said; [ErrInUse] for a device
// that is mounted; [ErrInvalid] for another type; and what package program says.
func Check(ctx context.Context, x exec.Interface, path, fsType string) (CheckResult, error) {
	result, err := check(ctx, x, path, fsType)
	if err != nil {
		return CheckResult{}, fmt.Errorf("check the %s on %s: %w", fsType, path, err)
	}
	return result, nil
}

func check(ctx context.Context, x exec.Interface, path, fsType string) (CheckResult, error) {
	switch fsType {
	case "xfs", "btrfs":
		return CheckResult{Output: "not needed: " + fsType + " recovers by itself when it is mounted"}, checkPath(path)
	case "ext2", "ext3", "ext4":
		if err := checkUnused(ctx, path); err != nil {
			return CheckResult{}, err
		}
		return e2fsck(ctx, x, "-p", path)
	}
	return CheckResult{}, invalid("file systems of the type %q are not checked here; supported are ext4, ext3, ext2, xfs and btrfs", fsType)
}

// checkUnused makes sure that a block device is not mounted anywhere, in whichever mount namespace, nor part of something else.
func checkUnused(ctx context.Context, path string) error {
	if err := checkPath(path); err != nil {
		return err
	}
	_, err := abandon.Run(ctx, func() (struct{}, error) {
		d, err := open(path, unix.O_RDONLY)
		if err != nil {
			return struct{}{}, err
		}
		defer d.file.Close()
		if !d.block {
			return struct{}{}, nil
		}
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if errors.Is(err, unix.EBUSY) {
			return struct{}{}, &kindError{ErrInUse, errors.New("it is mounted, or part of something that is in use")}
		}
		if err != nil {
			return struct{}{}, os.NewSyscallError("open", err)
		}
		return struct{}{}, os.NewSyscallError("close", unix.Close(fd))
	})
	return err
}

// What the bits of the exit status of e2fsck mean, see e2fsck(8).
const (
	fsckRepaired  = 1
	fsckReboot    = 2 // it was mounted
	fsckLeft      = 4
	fsckFailed    = 8
	fsckUsage     = 16
	fsckCancelled = 32
	fsckLibrary   = 128
)

// e2fsck runs it with the arguments and says what its exit status means.
func e2fsck(ctx context.Context, x exec.Interface, args ...string) (CheckResult, error) {
	output, err := program.Run(ctx, x, "e2fsck", args...)
	if err == nil {
		return CheckResult{Output: string(output)}, nil
	}
	var exited *program.ExitError
	if !errors.As(err, &exited) || exited.Code < 0 {
		return CheckResult{}, err
	}
	is := func(bit int) bool { return exited.Code&bit != 0 }
	switch {
	case is(fsckLibrary):
		return CheckResult{}, fmt.Errorf("a shared library of e2fsck is missing or wrong: %w", err)
	case is(fsckCancelled):
		return CheckResult{}, fmt.Errorf("e2fsck was cancelled by somebody: %w", err)
	case is(fsckUsage):
		return CheckResult{}, fmt.Errorf("e2fsck does not know its arguments: %w", err)
	case is(fsckLeft):
		return CheckResult{}, &kindError{ErrNeedsRepair, fmt.Errorf("it has errors that somebody has to look at, with e2fsck %s: %w", args[len(args)-1], err)}
	case is(fsckFailed):
		return CheckResult{}, fmt.Errorf("e2fsck could not do its work: %w", err)
	case is(fsckRepaired) || is(fsckReboot):
		return CheckResult{Repaired: true, Output: string(output)}, nil
	}
	return CheckResult{}, fmt.Errorf("e2fsck ended with a status that nobody knows: %w", err)
}
