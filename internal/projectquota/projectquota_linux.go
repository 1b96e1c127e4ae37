// SPDX-License-Identifier: Apache-2.0

package projectquota

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Supported returns nil if the file system of dir counts and limits projects, and otherwise an error that says what is missing
// and matches [errors.ErrUnsupported]. Any other error says that it is not known.
func Supported(dir string) error {
	return at(dir, func(fd int) error { return supported(fd, dir) })
}

func supported(fd int, dir string) error {
	if _, err := attributesOf(fd); err != nil {
		if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
			return fmt.Errorf("the file system of %s has no projects: %w", dir, errors.ErrUnsupported)
		}
		return fmt.Errorf("project of %s: %w", dir, err)
	}
	s := state{version: stateVersion}
	err := quotactl(fd, getState, 0, unsafe.Pointer(&s))
	switch {
	case err == nil && s.flags&projectLimits != 0:
	case err == nil, unavailable(err):
		return fmt.Errorf("the file system of %s does not limit projects (mount it with the option prjquota; an ext4 needs the "+
			"features quota and project): %w", dir, errors.ErrUnsupported)
	default:
		return fmt.Errorf("quotas of the file system of %s: %w", dir, err)
	}
	// The state is told to anybody; the rest takes CAP_SYS_ADMIN.
	switch _, err := nextUsed(fd, 0); {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("the quotas of the file system of %s take CAP_SYS_ADMIN: %w", dir, errors.ErrUnsupported)
	case err != nil:
		return fmt.Errorf("quotas of the file system of %s: %w", dir, err)
	}
	return nil
}

// unavailable says whether a call failed because the file system has no quotas, or none of projects.
func unavailable(err error) bool {
	for _, number := range []unix.Errno{unix.ENOSYS, unix.ENOTSUP, unix.ESRCH, unix.EINVAL, unix.ENOTBLK, unix.ENODEV, unix.ENOTTY} {
		if errors.Is(err, number) {
			return true
		}
	}
	return false
}

// ID returns the ID of the project that dir belongs to. What is in no project has the ID 0. An error that matches
// [errors.ErrUnsupported] says that the file system has no projects.
func ID(dir string) (id uint32, err error) {
	err = at(dir, func(fd int) error {
		a, err := attributesOf(fd)
		if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EINVAL) {
			err = errors.ErrUnsupported
		}
		if err != nil {
			return fmt.Errorf("project of %s: %w", dir, err)
		}
		id = a.project
		return nil
	})
	return id, err
}

// UsageOf tells what the project has on the file system of dir, which need not be in it. A project that nobody has heard of
// uses nothing.
func UsageOf(dir string, id uint32) (usage Usage, err error) {
	err = at(dir, func(fd int) error {
		usage, err = usageOf(fd, id)
		if err != nil {
			return fmt.Errorf("usage of project %d on the file system of %s: %w", id, dir, err)
		}
		return nil
	})
	return usage, err
}

func usageOf(fd int, id uint32) (Usage, error) {
	var q quota
	err := quotactl(fd, getQuota, id, unsafe.Pointer(&q))
	if errors.Is(err, unix.ENOENT) {
		return Usage{}, nil // as xfs says it
	}
	if err != nil {
		return Usage{}, err
	}
	return Usage{Bytes: q.bytes, Inodes: q.inodes, Limit: toBytes(q.limit), InodeLimit: q.inodeLimit}, nil
}

// Limit limits the project on the file system of dir, and changes nothing else. The limit in bytes is rounded up to 1 KiB; 0 is
// no limit. A project that uses more than its new limit cannot grow until it has shrunk. Where there is no limit left and
// nothing that belongs to it, the project is forgotten.
func Limit(dir string, id uint32, bytes, inodes uint64) error {
	return at(dir, func(fd int) error { return limit(fd, dir, id, bytes, inodes) })
}

func limit(fd int, dir string, id uint32, bytes, inodes uint64) error {
	if id == 0 {
		return fmt.Errorf("limit project 0 on the file system of %s: it is what belongs to no project", dir)
	}
	units := bytes / limitUnit
	if bytes%limitUnit != 0 {
		units++
	}
	q := quota{limit: units, inodeLimit: inodes, valid: validLimits}
	if err := quotactl(fd, setQuota, id, unsafe.Pointer(&q)); err != nil {
		return fmt.Errorf("limit project %d on the file system of %s: %w", id, dir, err)
	}
	return nil
}

// Set gives dir and everything in it to the project, so that what is made there belongs to it from then on, and limits the
// project, as [Limit] does. The limit comes last: a directory whose project has a limit is in it with all that it holds.
//
// The names that lead to dir may be symbolic links; dir may not, and none is followed in it. What is mounted in it is left
// alone. Special files and symbolic links that are there already are given to the project where Linux has file_setattr(2) (6.17);
// elsewhere they stay out of it, and occupy nothing but an inode each. A file with a further name elsewhere goes to the project,
// too. What another process moves into dir meanwhile may be missed.
//
// It takes CAP_SYS_ADMIN for the limit; the error then matches EPERM.
func Set(dir string, id uint32, bytes, inodes uint64) error {
	return at(dir, func(fd int) error {
		if err := assign(fd, dir, id, true); err != nil {
			return err
		}
		return limit(fd, dir, id, bytes, inodes)
	})
}

// Clear undoes [Set]: first the limit of the project goes, then dir and what is in it of the project belong to none. Before a
// directory is removed, lifting the limit is enough (see [Limit]).
func Clear(dir string, id uint32) error {
	return at(dir, func(fd int) error {
		if err := limit(fd, dir, id, 0, 0); err != nil {
			return err
		}
		return assign(fd, dir, id, false)
	})
}

// Leave takes dir alone out of the project, and not what is in it, so that it takes the same time for any directory. What is made
// in it from then on belongs to no project.
func Leave(dir string, id uint32) error {
	return at(dir, func(fd int) error {
		if err := (&assignment{id: id}).apply(fd); err != nil {
			return fmt.Errorf("take %s out of project %d: %w", dir, id, err)
		}
		return nil
	})
}

// freeAttempts is far more than are ever needed: even a million projects are a thousandth of all IDs.
const freeAttempts = 100

// FreeID returns an ID of ours, between [FirstID] and [LastID], with which no file on the file system of dir is marked and for
// which there is no limit.
//
// Nothing reserves the ID. It is a random one of a billion, so that another process that looks for one at the same time hardly
// ever finds the same; as soon as a directory has it, it is in use.
func FreeID(dir string) (id uint32, err error) {
	err = at(dir, func(fd int) error {
		for range freeAttempts {
			id = FirstID + rand.Uint32N(LastID-FirstID+1)
			next, err := nextUsed(fd, id)
			if err != nil {
				return fmt.Errorf("find a free project on the file system of %s: %w", dir, err)
			}
			if next > id {
				return nil
			}
		}
		return fmt.Errorf("find a free project on the file system of %s: none of %d was", dir, freeAttempts)
	})
	return id, err
}

// nextUsed returns the first ID from id on that has files or a limit, and the greatest number if there is none.
func nextUsed(fd int, id uint32) (uint32, error) {
	var q quota
	err := quotactl(fd, getNextQuota, id, unsafe.Pointer(&q))
	if errors.Is(err, unix.ENOENT) {
		return math.MaxUint32, nil
	}
	return q.id, err
}

// toBytes returns a limit in bytes. Some have no limit in the form of the largest one.
func toBytes(units uint64) uint64 {
	if units > math.MaxUint64/limitUnit {
		return 0
	}
	return units * limitUnit
}

// at calls what works on the directory.
func at(dir string, do func(fd int) error) error {
	fd, err := open(dir)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	return do(fd)
}

func open(dir string) (int, error) {
	for {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}
