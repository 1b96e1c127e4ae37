// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// makeDirs makes a directory and what is missing above it, mode 0755. If follow is not set, a symbolic link on the way is an
// error that matches ELOOP.
func makeDirs(path string, follow bool) error {
	err := makeDir(path, 0o755, follow)
	if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(path) == path {
		return err
	}
	if err := makeDirs(filepath.Dir(path), follow); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return makeDir(path, 0o755, follow)
}

func makeDir(path string, mode uint32, follow bool) error {
	dir, err := open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, follow)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := mkdir(dir, filepath.Base(path), mode); err != nil {
		return &fs.PathError{Op: "make directory", Path: path, Err: err}
	}
	return nil
}

// mkdir makes a directory in dir with exactly the mode.
func mkdir(dir int, name string, mode uint32) error {
	return withoutUmask(func(umask bool) error {
		if err := retry(func() error { return unix.Mkdirat(dir, name, mode) }); err != nil || !umask {
			return err
		}
		fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Fchmod(fd, mode)
	})
}

// makeFile makes an empty file with exactly the mode. The directory has to exist.
func makeFile(path string, mode uint32, follow bool) error {
	parent, name := filepath.Dir(path), filepath.Base(path)
	dir, err := open(parent, unix.O_PATH|unix.O_DIRECTORY, follow)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return withoutUmask(func(umask bool) error {
		// O_EXCL follows no link in the last element.
		fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, mode)
		if err != nil {
			return &fs.PathError{Op: "create", Path: path, Err: err}
		}
		defer unix.Close(fd)
		if !umask {
			return nil
		}
		return chmod(fd, path, mode)
	})
}

func chmod(fd int, path string, mode uint32) error {
	if err := unix.Fchmod(fd, mode); err != nil {
		return &fs.PathError{Op: "change the mode of", Path: path, Err: err}
	}
	return nil
}

// open opens path close-on-exec. If follow is not set, path must be free of symbolic links; that takes Linux 5.6.
func open(path string, flags int, follow bool) (fd int, err error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_NO_SYMLINKS}
	err = retry(func() error {
		if follow {
			fd, err = unix.Open(path, flags|unix.O_CLOEXEC, 0)
		} else {
			fd, err = unix.Openat2(unix.AT_FDCWD, path, &how)
		}
		return err
	})
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// withoutUmask calls f on a thread that has no umask, so that what f makes has its mode from the beginning. To change it
// afterwards would show a wrong mode to others, leave it after a crash, and act on whatever is there by then. The umask of
// the process does not change: umask(2) alone would change it for all threads.
//
// Where a seccomp filter forbids that, f is called with umask set: it has to repair the mode.
func withoutUmask(f func(umask bool) error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The main thread cannot end, and stands for the process in /proc. While it is locked here, another one
			// serves the goroutine below.
			defer runtime.UnlockOSThread()
			done <- withoutUmask(f)
			return
		}
		if unix.Unshare(unix.CLONE_FS) != nil {
			defer runtime.UnlockOSThread()
			done <- f(true)
			return
		}
		// Still locked at its end, the thread ends with the goroutine.
		unix.Umask(0)
		done <- f(false)
	}()
	return <-done
}

// retry repeats a system call that a signal has interrupted.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
