// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"context"
	"fmt"
	"io"
	"strings"
)

const (
	// headKept is how much of the beginning is read at once: nearly all that is known is recognised by it.
	headKept = 256 << 10

	// edge is how much has to be zero at the beginning and at the end. The last of the places where LUKS2 has its second
	// header is the end of the first 4 MiB, so a little more is read there.
	edge     = 4 << 20
	headEdge = edge + 64<<10
)

// examine says what is in r, of the given size in bytes, which is greater than zero.
func examine(ctx context.Context, r io.ReaderAt, size int64) (Content, error) {
	s := &source{ctx: ctx, r: r, size: size}
	head := make([]byte, min(size, headKept))
	if err := s.read(head, 0); err != nil {
		return Content{}, err
	}
	s.head = head
	for _, end := range []func(*source) (int64, error){extEnd, xfsEnd, btrfsEnd} {
		claimed, err := end(s)
		if err != nil {
			return Content{}, err
		}
		s.claimed = max(s.claimed, claimed)
	}

	// First what has a file system inside, or is part of something larger: the file system that shows through must not be
	// mounted or written by itself.
	for _, c := range containers {
		if found, err := c(s); found != nil || err != nil {
			return orError(found, err)
		}
	}
	found, err := fileSystem(s)
	if found != nil || err != nil {
		return orError(found, err)
	}
	for _, c := range others {
		if found, err := c(s); found != nil || err != nil {
			return orError(found, err)
		}
	}
	return proveBlank(s)
}

func orError(found *Content, err error) (Content, error) {
	if err != nil {
		return Content{}, err
	}
	return *found, nil
}

// detector looks for one thing. It returns nil if that is not there.
type detector func(*source) (*Content, error)

// fileSystem looks for all file systems. Two of them mean that nobody can tell which one is meant. But behind the superblock of
// an ext or xfs, files may be where others have theirs.
func fileSystem(s *source) (*Content, error) {
	found, err := oneOf(s, []detector{ext, xfs})
	if found != nil || err != nil {
		return found, err
	}
	return oneOf(s, fileSystems)
}

func oneOf(s *source, detectors []detector) (*Content, error) {
	var found []*Content
	for _, d := range detectors {
		c, err := d(s)
		if err != nil {
			return nil, err
		}
		if c != nil {
			found = append(found, c)
		}
	}
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	}
	var types []string
	for _, c := range found {
		types = append(types, c.Type)
	}
	return &Content{Type: "both " + strings.Join(types, " and ")}, nil
}

// proveBlank looks where nothing has been found at the beginning.
func proveBlank(s *source) (Content, error) {
	for _, r := range ranges(s.size) {
		data, err := s.firstData(r.from, r.to)
		if err != nil {
			return Content{}, err
		}
		if data >= 0 {
			return nameData(s, data)
		}
	}
	return Content{Blank: true}, nil
}

// nameData says what the device was, of which the data at the offset are left, or something behind them, as well as it can.
func nameData(s *source, offset int64) (Content, error) {
	for _, p := range places(s.size) {
		block, err := s.at(p.offset, int(min(placeSize, s.size-p.offset)))
		if err != nil {
			return Content{}, err
		}
		if what := p.recognise(block); what != "" {
			return Content{Type: fmt.Sprintf("%s at offset %d", what, p.offset)}, nil
		}
	}
	return Content{Type: fmt.Sprintf("data of unknown kind at offset %d", offset)}, nil
}
