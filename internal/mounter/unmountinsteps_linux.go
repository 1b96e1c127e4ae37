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

	"github.com/volumekit/volumekit/internal/unmounting"
)

// UnmountInSteps is like Unmount, but does not wait for ever for a server that is gone. If the mount is not away after a
// while, it is taken away by force (MNT_FORCE, which ends what waits for the server with an error), and if that does not
// help, from the directory tree only (MNT_DETACH, lazily), the rest of it going when its last user does. How long each step
// may take says [unmounting.Limit]. The step that is returned is the one that did it, or with an error the last one that was
// tried; the log says when it came to another one than the first.
//
// A mount that is in use on a server that answers is left alone, and the error matches [unix.EBUSY]. An error that matches
// [context.DeadlineExceeded], or the cause of the end of ctx, says that the kernel is still at it. Another call for the same
// mount then goes on from there: of each step there is one call in the kernel at most.
func (m *Mounter) UnmountInSteps(ctx context.Context, target string) (unmounting.Step, error) {
	return m.unmountInSteps(ctx, target, func(step unmounting.Step) time.Duration { return unmounting.Limit(ctx, step) })
}

// UnmountWithForce is UnmountInSteps with a timeout for each of the steps. It is at least a second for those after the first.
func (m *Mounter) UnmountWithForce(target string, timeout time.Duration) error {
	_, err := m.unmountInSteps(context.Background(), target, func(step unmounting.Step) time.Duration {
		if step == unmounting.Plain {
			return timeout
		}
		return max(timeout, time.Second)
	})
	return err
}

func (m *Mounter) unmountInSteps(ctx context.Context, target string, limit func(unmounting.Step) time.Duration) (unmounting.Step, error) {
	if ctx.Err() != nil {
		return unmounting.Plain, &os.PathError{Op: "unmount", Path: target, Err: context.Cause(ctx)}
	}
	mounted := mountOn(target)
	if earlier := m.attempts.Earlier(target, mounted); len(earlier) > 0 {
		return m.finish(ctx, target, limit(unmounting.Plain), earlier)
	}
	var hanging []*unmounting.Attempt
	var err error
	for step := unmounting.Plain; ; step++ {
		if step > unmounting.Plain {
			// Without this look the next step could take away a mount below the one that is already out of the tree.
			if mountOn(target) != mounted {
				return m.finish(ctx, target, limit(step), hanging)
			}
			klog.FromContext(ctx).Info("Unmounting "+step.String(), "target", target, "reason", err)
		}
		attempt := m.attempts.Start(unmounting.Key{Target: target, Mount: mounted, Step: step}, func() error {
			return unmountBy(step, target)
		})
		err = m.wait(ctx, attempt, limit(step))
		switch {
		case err == nil:
			// What hangs asks the server whether it is there. Nobody waits for that any more.
			for _, attempt := range hanging {
				m.attempts.Forget(attempt)
			}
			return step, nil
		case errors.Is(err, errHangs):
			hanging = append(hanging, attempt)
		case step == unmounting.Plain && !errors.Is(err, errGone):
			return step, err
		case step > unmounting.Plain && errors.Is(err, unix.EINVAL):
			return m.finish(ctx, target, limit(step), hanging)
		}
		if step == unmounting.Lazy || ctx.Err() != nil {
			if errors.Is(err, errHangs) {
				err = &os.PathError{Op: "unmount", Path: target, Err: err}
			}
			return step, err
		}
	}
}

// finish waits for attempts that have taken the mount out of the tree. What they still do may be to write to a disk.
func (m *Mounter) finish(ctx context.Context, target string, limit time.Duration, attempts []*unmounting.Attempt) (unmounting.Step, error) {
	step := unmounting.Plain
	for _, attempt := range attempts {
		step = max(step, attempt.Step())
		if err := m.wait(ctx, attempt, limit); errors.Is(err, errHangs) {
			return step, &os.PathError{Op: "finish the unmount of", Path: target, Err: err}
		}
	}
	return step, nil
}

// errHangs says that an attempt is still in the kernel.
var errHangs = errors.New("the kernel is still at it")

// wait returns what the attempt comes to, or gives it up with an error that matches errHangs.
func (m *Mounter) wait(ctx context.Context, attempt *unmounting.Attempt, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var why error
	select {
	case <-attempt.Done():
		return attempt.Err()
	case <-timer.C:
		why = fmt.Errorf("after more than %v: %w", limit.Round(time.Millisecond), context.DeadlineExceeded)
	case <-ctx.Done():
		why = context.Cause(ctx)
	}
	select {
	case <-attempt.Done(): // both came; an answer is worth more
		return attempt.Err()
	default:
	}
	m.attempts.Abandon(attempt)
	return fmt.Errorf("%w: %w", errHangs, why)
}

func unmountBy(step unmounting.Step, target string) error {
	switch step {
	case unmounting.Forced:
		return unmount(target, unix.MNT_FORCE)
	case unmounting.Lazy:
		return unmount(target, unix.MNT_DETACH)
	}
	return unmountIdle(target)
}

// errGone says that the server of a file system is gone.
var errGone = errors.New("the server does not answer")

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

// mountOn returns the ID of the uppermost mount on target, or of the one that target is in if nothing is mounted there; 0 if
// the kernel does not tell (before 5.8). The server is not asked. Before 6.8 IDs are used again.
func mountOn(target string) uint64 {
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	const mask = unix.STATX_MNT_ID | unix.STATX_MNT_ID_UNIQUE
	var stat unix.Statx_t
	if ignoringEINTR(func() error { return unix.Statx(unix.AT_FDCWD, target, flags, mask, &stat) }) != nil {
		return 0
	}
	if stat.Mask&mask == 0 {
		return 0
	}
	return stat.Mnt_id
}
