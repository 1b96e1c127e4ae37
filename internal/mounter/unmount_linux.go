// SPDX-License-Identifier: Apache-2.0

package mounter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

// Unmount takes away the mount on target, the uppermost if there are several. The last element of target is not followed
// if it is a symbolic link. Where nothing is mounted, the error matches [unix.EINVAL]; where the mount is in use,
// [unix.EBUSY].
func (m *Mounter) Unmount(target string) error { return unmount(target, 0) }

// UnmountWithForce is like Unmount, but does not wait for ever for a server that is gone. If the mount is not away after
// timeout, it is taken away by force (MNT_FORCE, which ends what waits for the server with an error), and if that does not
// help, from the directory tree only (MNT_DETACH, lazily), the rest of it going when its last user does. Each of these two
// steps gets timeout again, and at least a second. The log says when it came to one of them.
//
// A mount that is in use on a server that answers is left alone, and the error matches [unix.EBUSY]. An error that matches
// [context.DeadlineExceeded] says that the kernel is still at it.
func (m *Mounter) UnmountWithForce(target string, timeout time.Duration) error {
	var hanging []attempt
	try := func(timeout time.Duration, f func() error) error {
		a := start(f)
		err := a.wait(timeout)
		if errors.Is(err, context.DeadlineExceeded) {
			hanging = append(hanging, a)
		}
		return err
	}
	err := try(timeout, func() error { return unmountIdle(target) })
	if len(hanging) == 0 && !errors.Is(err, errGone) {
		return err
	}
	timeout = max(timeout, time.Second)
	for _, step := range []struct {
		how  string
		flag int
	}{{"by force", unix.MNT_FORCE}, {"lazily", unix.MNT_DETACH}} {
		klog.Background().Info("Unmounting "+step.how, "target", target, "reason", err)
		err = try(timeout, func() error { return unmount(target, step.flag) })
		if errors.Is(err, unix.EINVAL) {
			// An attempt that hangs has taken the mount out of the tree. What it still does may be to write to a disk.
			for _, a := range hanging {
				if err := a.wait(timeout); errors.Is(err, context.DeadlineExceeded) {
					return &os.PathError{Op: "finish the unmount of", Path: target, Err: err}
				}
			}
			return nil
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// errGone says that the server of a file system is gone.
var errGone = errors.New("the server does not answer")

// attempt is a call that may hang; see package abandon for what giving up on it means.
type attempt <-chan error

func start(f func() error) attempt {
	a := make(chan error, 1)
	go func() { a <- f() }()
	return a
}

func (a attempt) wait(timeout time.Duration) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case err := <-a:
		return err
	case <-timer.C:
		return fmt.Errorf("the kernel needs more than %v: %w", timeout, context.DeadlineExceeded)
	}
}

// unmountIdle unmounts, and returns errGone for what is in use on a server that is gone. With a server that neither answers
// nor refuses, it hangs.
func unmountIdle(target string) error {
	err := unmount(target, 0)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	var stat unix.Statfs_t // always asks the server
	switch statErr := ignoringEINTR(func() error { return unix.Statfs(target, &stat) }); statErr {
	case unix.ENOTCONN, unix.ECONNABORTED, unix.ESTALE, unix.EIO, unix.EHOSTDOWN, unix.EHOSTUNREACH, unix.ETIMEDOUT:
		return fmt.Errorf("%w: %w", errGone, &os.PathError{Op: "statfs", Path: target, Err: statErr})
	}
	return err
}

func unmount(target string, flags int) error {
	err := ignoringEINTR(func() error { return unix.Unmount(target, flags|unix.UMOUNT_NOFOLLOW) })
	switch err {
	case nil:
		return nil
	case unix.EINVAL:
		err = fmt.Errorf("%w: not a mount point", err)
	case unix.EBUSY:
		err = fmt.Errorf("%w: in use (open files, working directories, or mounts inside)", err)
	case unix.EPERM:
		err = fmt.Errorf("%w%s", err, hint(err))
	}
	return &os.PathError{Op: "unmount", Path: target, Err: err}
}
