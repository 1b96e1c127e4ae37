// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

var (
	little = binary.LittleEndian
	big    = binary.BigEndian
)

// source is what is probed. Reads that lie in head cost nothing.
type source struct {
	ctx  context.Context
	r    io.ReaderAt
	size int64
	head []byte

	// claimed is where the file system ends whose superblock is at the beginning, 0 if there is none. What looks like something
	// else before that end, where its files are, may have been written into one of them on purpose.
	claimed int64
}

// read fills p from the offset. Everything of it has to be there.
func (s *source) read(p []byte, offset int64) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	n, err := s.r.ReadAt(p, offset)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read %d bytes at offset %d: %w", len(p), offset, err)
}

// at returns n bytes at the offset, or nil where not all of them are on the device.
func (s *source) at(offset int64, n int) ([]byte, error) {
	if offset < 0 || offset > s.size-int64(n) {
		return nil, nil
	}
	if end := offset + int64(n); end <= int64(len(s.head)) {
		return s.head[offset:end], nil
	}
	p := make([]byte, n)
	if err := s.read(p, offset); err != nil {
		return nil, err
	}
	return p, nil
}

// has says whether the magic is at the offset.
func (s *source) has(offset int64, magic string) (bool, error) {
	p, err := s.at(offset, len(magic))
	return p != nil && string(p) == magic, err
}

// zeros is compared with what is read.
var zeros [256 << 10]byte

// firstData returns the offset of the first byte in [from, to) that is not zero, or -1. What is beyond the device does not count.
func (s *source) firstData(from, to int64) (int64, error) {
	from, to = max(from, 0), min(to, s.size)
	if from >= to {
		return -1, nil
	}
	buffer := make([]byte, min(to-from, int64(len(zeros))))
	for from < to {
		p := buffer[:min(to-from, int64(len(buffer)))]
		if err := s.read(p, from); err != nil {
			return -1, err
		}
		if !bytes.Equal(p, zeros[:len(p)]) {
			return from + int64(bytes.IndexFunc(p, func(r rune) bool { return r != 0 })), nil
		}
		from += int64(len(p))
	}
	return -1, nil
}

// text returns what is before the first zero byte.
func text(p []byte) string {
	p, _, _ = bytes.Cut(p, []byte{0})
	return string(p)
}

// formatUUID writes a UUID in lower case with dashes; nothing for one that is all zero.
func formatUUID(p []byte) string {
	if bytes.Equal(p, zeros[:len(p)]) {
		return ""
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", p[0:4], p[4:6], p[6:8], p[8:10], p[10:16])
}
