// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/abandon"
	"github.com/volumekit/volumekit/internal/descent"
	"github.com/volumekit/volumekit/internal/provisioning"
	"github.com/volumekit/volumekit/internal/volumedir"
	"github.com/volumekit/volumekit/volume"
)

// openBase opens the base path, which may be reached through symbolic links. If create is set, it is made.
func (i image) openBase(ctx context.Context, create bool) (*os.File, error) {
	return abandon.Run(ctx, func() (*os.File, error) {
		if create {
			if err := os.MkdirAll(i.base, 0o755); err != nil {
				return nil, volumedir.Exhausted(err)
			}
		}
		return os.OpenFile(i.base, os.O_RDONLY|unix.O_DIRECTORY, 0)
	})
}

// openDirectory opens the directory of the image. Nothing below the base path is a symbolic link, or mounted. If create is set, what
// is missing is made.
func (i image) openDirectory(base *os.File, create bool) (*os.File, error) {
	var elements []string
	if i.below != "" {
		elements = strings.Split(i.below, "/")
	}
	mkdir := mkdirWith(0o755)
	if !create {
		mkdir = nil
	}
	return descend(base, i.directory(), elements, mkdir)
}

func descend(from *os.File, path string, elements []string, mkdir func(int, string) error) (*os.File, error) {
	fd, failed, err := descent.Down(int(from.Fd()), elements, mkdir)
	if err != nil {
		return nil, provisioning.NotDown(from.Name(), elements, failed, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

func mkdirWith(mode uint32) func(int, string) error {
	return func(dir int, name string) error {
		return ignoringEINTR(func() error { return unix.Mkdirat(dir, name, mode) })
	}
}

// openIn opens a directory in another one.
func openIn(dir *os.File, name string) (*os.File, error) {
	return descend(dir, filepath.Join(dir.Name(), name), []string{name}, nil)
}

// makeIn is openIn, and makes what is not there, for nobody else to look into.
func makeIn(dir *os.File, name string) (*os.File, error) {
	return descend(dir, filepath.Join(dir.Name(), name), []string{name}, mkdirWith(0o700))
}

// openAt opens a file in a directory, whatever it is, and follows nothing.
func openAt(dir *os.File, name string, flags uint64) (*os.File, error) {
	path := filepath.Join(dir.Name(), name)
	var fd int
	var err error
	if flags&unix.O_CREAT != 0 { // with O_EXCL it follows nothing
		err = ignoringEINTR(func() (err error) {
			fd, err = unix.Openat(int(dir.Fd()), name, int(flags)|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
			return err
		})
	} else {
		fd, err = descent.Open(int(dir.Fd()), name, flags|unix.O_NONBLOCK) // a named pipe would wait
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// unlinkAt removes a file. It succeeds if there is none.
func unlinkAt(dir *os.File, name string) error {
	if err := unix.Unlinkat(int(dir.Fd()), name, 0); err != nil && err != unix.ENOENT {
		return &fs.PathError{Op: "remove", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	return nil
}

// errNotRegular is about what is no regular file: no image, but there.
var errNotRegular = errors.New("it is no regular file")

// idAt returns what the file of that name is.
func idAt(dir *os.File, name string) (fileID, error) {
	return statx(int(dir.Fd()), name, unix.AT_SYMLINK_NOFOLLOW, filepath.Join(dir.Name(), name))
}

func idOf(f *os.File) (fileID, error) { return statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, f.Name()) }

func statx(dir int, name string, flags int, path string) (fileID, error) {
	var st unix.Statx_t
	err := ignoringEINTR(func() error { return unix.Statx(dir, name, flags, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st) })
	if err != nil {
		return fileID{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fileID{}, fmt.Errorf("%s: %w", path, errNotRegular)
	}
	id := fileID{Inode: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		id.Born = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return id, nil
}

// lock has other calls for the same image wait. If create is set, the directory of the records is made; else the error matches
// fs.ErrNotExist if it is missing.
func (i image) lock(ctx context.Context, base *os.File, create bool) (unlock func(), err error) {
	for attempt := 1; ; attempt++ {
		unlock, err := i.tryLock(ctx, base, create)
		if err == errAgain || create && errors.Is(err, fs.ErrNotExist) && attempt < maxAttempts {
			continue
		}
		return unlock, err
	}
}

// errAgain is about a lock whose file has been removed.
var errAgain = errors.New("again")

func (i image) tryLock(ctx context.Context, base *os.File, create bool) (unlock func(), err error) {
	open := openIn
	if create {
		open = makeIn
	}
	records, err := open(base, recordsDir)
	if err != nil {
		return nil, err
	}
	name := i.name + ".lock"
	f, err := openAt(records, name, unix.O_CREAT|unix.O_RDWR)
	if err == nil {
		if err = flock(ctx, f); err != nil {
			_ = f.Close()
		}
	}
	if err != nil {
		_ = records.Close()
		return nil, err
	}
	locked, err := idOf(f)
	if now, statErr := idAt(records, name); err != nil || statErr != nil || now != locked {
		_, _ = f.Close(), records.Close()
		return nil, errAgain // it is a file that whoever had the lock has removed
	}
	return func() {
		_ = unlinkAt(records, name)
		_, _ = f.Close(), records.Close()
		_ = unix.Unlinkat(int(base.Fd()), recordsDir, unix.AT_REMOVEDIR) // if it is empty
	}, nil
}

// allocated is how much is allocated at once, so that one can stop in between.
const allocated = 1 << 30

// setSize makes a file larger, all of it or nothing. The rest is a hole, or allocated.
func setSize(ctx context.Context, f *os.File, bytes int64, allocate bool) error {
	info, err := f.Stat()
	if err != nil || info.Size() >= bytes {
		return err
	}
	if allocate {
		err = fallocate(ctx, f, info.Size(), bytes)
	} else {
		err = f.Truncate(bytes)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EFBIG):
		err = volume.Errorf(volume.ErrInvalid, "the file system that is to hold it has no files of %d bytes: %w", bytes, err)
	case errors.Is(err, unix.EOPNOTSUPP):
		err = volume.Errorf(volume.ErrNotSupported, "the file system that is to hold it cannot allocate space in advance (preallocate): %w", err)
	default:
		err = fmt.Errorf("make %s %d bytes long: %w", f.Name(), bytes, volumedir.Exhausted(err))
	}
	return errors.Join(err, f.Truncate(info.Size()))
}

func fallocate(ctx context.Context, f *os.File, from, to int64) error {
	for from < to {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		length := min(to-from, allocated)
		if err := ignoringEINTR(func() error { return unix.Fallocate(int(f.Fd()), 0, from, length) }); err != nil {
			return err
		}
		from += length
	}
	return nil
}

func ignoringEINTR(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
