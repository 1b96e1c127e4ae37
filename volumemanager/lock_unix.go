// SPDX-License-Identifier: Apache-2.0

//go:build unix

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/volumekit/volumekit/volume"
)

// lockRoot takes the lock on the root directory, which lasts until the file is closed or the process ends. It is a lock on
// the directory itself, so it leaves no file behind.
func lockRoot(ctx context.Context, root string, wait bool) (*os.File, error) {
	dir, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	err = flock(dir, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) && wait {
		return waitForLock(ctx, dir)
	}
	switch {
	case err == nil:
		return dir, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = inUse(root)
	default:
		err = fmt.Errorf("lock root directory %s: %w", root, err)
	}
	_ = dir.Close()
	return nil, err
}

// waitForLock leaves a goroutine behind, waiting, if ctx ends first. It gives the lock back as soon as it gets it.
func waitForLock(ctx context.Context, dir *os.File) (*os.File, error) {
	locked := make(chan error)
	go func() {
		err := flock(dir, syscall.LOCK_EX)
		select {
		case locked <- err:
		case <-ctx.Done():
			_ = dir.Close()
		}
	}()
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", inUse(dir.Name()), context.Cause(ctx))
	case err := <-locked:
		if err != nil {
			_ = dir.Close()
			return nil, fmt.Errorf("lock root directory %s: %w", dir.Name(), err)
		}
		return dir, nil
	}
}

func inUse(root string) error {
	return volume.Errorf(volume.ErrInUse, "root directory %s is in use by another volume manager: let it finish, or use another root", root)
}

func flock(file *os.File, how int) error {
	for {
		err := syscall.Flock(int(file.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
