// SPDX-License-Identifier: Apache-2.0

package mounttable

import (
	"context"
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

func watch(ctx context.Context) (<-chan struct{}, error) {
	mounts, err := openChanges()
	if err != nil {
		return nil, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		_ = mounts.close()
		return nil, os.NewSyscallError("eventfd", err)
	}
	changed := make(chan struct{}, 1)
	woken := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(woken)
		_, _ = unix.Write(wake, binary.NativeEndian.AppendUint64(nil, 1))
	})
	go func() {
		defer close(changed)
		if err := report(mounts, wake, changed); err != nil {
			klog.FromContext(ctx).Error(err, "Mounts are no longer watched")
		}
		if !cancel() {
			<-woken // before the descriptor is closed, and perhaps another one's
		}
		_ = unix.Close(wake)
		_ = mounts.close()
	}()
	return changed, nil
}

// report reports changes until wake can be read.
func report(mounts changes, wake int, changed chan<- struct{}) error {
	fds := []unix.PollFd{{Fd: int32(wake), Events: unix.POLLIN}, mounts.pollFd()}
	for {
		if err := poll(fds, -1); err != nil {
			return err
		}
		if fds[0].Revents != 0 {
			return nil
		}
		select {
		case changed <- struct{}{}:
		default: // the one that is there tells of this one too
		}
	}
}
