// SPDX-License-Identifier: Apache-2.0

// Package unmounting takes mounts away in a time that is bounded, also when the server of a network file system is gone.
package unmounting

import (
	"context"
	"os"
	"time"

	"k8s.io/mount-utils"
)

// MaxStep is the most that a step of an unmount may take, however far away the context's deadline is.
const MaxStep = 10 * time.Second

// Limit is the time that a step may take so that those after it get as much: an even share of what is left until the
// deadline of ctx, and at most [MaxStep].
func Limit(ctx context.Context, step Step) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return MaxStep
	}
	return min(time.Until(deadline)/time.Duration(Lazy-step+1), MaxStep)
}

// Unmounter unmounts with a mounter of the host. Its methods may be called concurrently.
type Unmounter struct {
	mounter  mount.Interface
	attempts Attempts
}

// New returns an Unmounter. One is made for each mounter and kept, as it knows which calls have not returned.
func New(mounter mount.Interface) *Unmounter { return &Unmounter{mounter: mounter} }

// stepwise is a mounter that does by itself what Unmount is for, as the Mounter of package mounter does.
type stepwise interface {
	UnmountInSteps(ctx context.Context, target string) (Step, error)
}

// Unmount takes away the mount on target, the uppermost if there are several, and returns before ctx ends or soon after.
//
// With volumekit's own mounter (see its UnmountInSteps) it uses force, and at last takes the mount away lazily, but only
// when the server does not answer; what is in use otherwise is left alone, and the error matches EBUSY. The step is the one
// that did it, or with an error the last one that was tried.
//
// Another mounter's UnmountWithForce, or Unmount if it has only that, is called, and the step is always Plain, as it does not
// tell. The call goes on after the end of ctx, and another one for the same target waits for it instead of adding to it; its
// result is the result of both.
func (u *Unmounter) Unmount(ctx context.Context, target string) (Step, error) {
	if own, ok := u.mounter.(stepwise); ok {
		return own.UnmountInSteps(ctx, target)
	}
	if ctx.Err() != nil {
		return Plain, unfinished(target, context.Cause(ctx))
	}
	limit := Limit(ctx, Plain)
	attempt := u.attempts.Start(Key{Target: target}, func() error {
		if forcing, ok := u.mounter.(mount.MounterForceUnmounter); ok {
			return forcing.UnmountWithForce(target, limit)
		}
		return u.mounter.Unmount(target)
	})
	select {
	case <-attempt.Done():
		return Plain, attempt.Err()
	case <-ctx.Done():
		return Plain, unfinished(target, context.Cause(ctx))
	}
}

func unfinished(target string, err error) error {
	return &os.PathError{Op: "unmount", Path: target, Err: err}
}
