// SPDX-License-Identifier: Apache-2.0

package mounttable

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/statmount"
)

// reader reads the mounts when they have changed.
type reader struct {
	changes changes
	current bool     // what was read last is what was there at the last change
	byTable bool     // the kernel has no listmount, or does not let us use it
	ids     []uint64 // room for those of the next look
}

func open() (reader, error) {
	changes, err := openChanges()
	return reader{changes: changes}, err
}

func (r *reader) close() error { return r.changes.close() }

// read returns the mounts, given those of the last time.
func (r *reader) read(known []*Mount) ([]*Mount, error) {
	// Before reading: what changes meanwhile is reported the next time.
	changed, err := r.changes.since()
	if err != nil {
		return nil, err
	}
	if r.current && !changed {
		return known, nil
	}
	r.current = false
	mounts, err := r.readChanged(known)
	r.current = err == nil
	return mounts, err
}

func (r *reader) readChanged(known []*Mount) ([]*Mount, error) {
	if r.byTable {
		return readTable()
	}
	var err error
	r.ids, err = statmount.List(r.ids[:0])
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM): // EPERM is what seccomp filters say
		r.byTable = true
		return readTable()
	case err != nil:
		return nil, fmt.Errorf("list the mounts: %w", err)
	}
	if same(known, r.ids) {
		known = nil
	}
	return merge(known, r.ids)
}

func same(known []*Mount, ids []uint64) bool {
	if len(known) != len(ids) {
		return false
	}
	for i, m := range known {
		if m.ID != ids[i] {
			return false
		}
	}
	return true
}

// merge returns the mounts that have the IDs, and asks for those that are not among the known. Both are in ascending order.
func merge(known []*Mount, ids []uint64) ([]*Mount, error) {
	mounts := make([]*Mount, 0, len(ids))
	for _, id := range ids {
		for len(known) > 0 && known[0].ID < id {
			known = known[1:]
		}
		if len(known) > 0 && known[0].ID == id {
			mounts = append(mounts, known[0])
			continue
		}
		m, err := statmount.Get(id, statmount.Basic|statmount.Superblock|statmount.RootPath|
			statmount.PointPath|statmount.TypeName|statmount.SourceName)
		switch {
		case errors.Is(err, unix.ENOENT):
			continue // it has gone since
		case err != nil:
			return nil, fmt.Errorf("find out what mount %d is: %w", id, err)
		}
		mounts = append(mounts, &Mount{
			ID: m.ID, Parent: m.Parent, Point: m.Point, Root: m.Root, Type: m.Type, Source: m.Source,
			Device: device(int(m.Major), int(m.Minor)),
		})
	}
	return mounts, nil
}

func readTable() ([]*Mount, error) {
	infos, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	mounts := make([]*Mount, len(infos))
	for i, info := range infos {
		mounts[i] = &Mount{
			ID: uint64(info.ID), Parent: uint64(info.Parent), Point: info.Mountpoint, Root: info.Root,
			Type: info.FSType, Source: info.Source, Device: device(info.Major, info.Minor),
		}
	}
	return mounts, nil
}

func device(major, minor int) string { return strconv.Itoa(major) + ":" + strconv.Itoa(minor) }
