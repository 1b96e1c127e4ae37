// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sparse is a device with some data at an offset, and zeros otherwise.
type sparse struct {
	data []byte
	at   int64
	size int64
	fail int64 // reads of this byte fail; -1 for none
}

func (s sparse) ReadAt(p []byte, offset int64) (int, error) {
	if s.fail >= offset && s.fail < offset+int64(len(p)) {
		return 0, errors.New("input/output error")
	}
	n := min(int64(len(p)), s.size-offset)
	if n < 0 {
		return 0, io.EOF
	}
	clear(p)
	if skip := s.at - offset; skip >= 0 && skip < n {
		copy(p[skip:n], s.data)
	} else if skip < 0 && -skip < int64(len(s.data)) {
		copy(p[:n], s.data[-skip:])
	}
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

func TestEveryReadHasToSucceed(t *testing.T) {
	const size = 1 << 40
	for _, r := range ranges(size) {
		for _, at := range []int64{r.from, r.to - 1} {
			content, err := examine(t.Context(), sparse{size: size, fail: min(at, size-1)}, size)
			assert.ErrorContains(t, err, "input/output error", at)
			assert.Zero(t, content)
		}
	}
	content, err := examine(t.Context(), sparse{size: size - 1, fail: -1}, size) // shorter than it says
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.Zero(t, content)
}

func TestEveryByteThatHasToBeZeroCounts(t *testing.T) {
	for _, size := range []int64{1, 4096, 8 << 20, 100<<20 + 512, 1 << 40} {
		for _, r := range ranges(size) {
			for _, at := range []int64{r.from, min(r.to, size) - 1} {
				content, err := examine(t.Context(), sparse{data: []byte{0x80}, at: at, size: size, fail: -1}, size)
				require.NoError(t, err)
				assert.False(t, content.Blank, "size %d, byte %d", size, at)
				assert.False(t, content.IsFileSystem)
			}
		}
	}
}

func TestASmallDeviceIsReadAsAWhole(t *testing.T) {
	for _, size := range []int64{1, 8 << 20, whole} {
		assert.Equal(t, []span{{0, size}}, ranges(size))
	}
}

func TestALargeDeviceIsLookedAtInLittleTime(t *testing.T) {
	for _, size := range []int64{whole + 1, 1 << 40, 1 << 50, 1<<63 - 1} {
		var total int64
		for _, r := range ranges(size) {
			total += r.to - r.from
		}
		assert.Less(t, total, int64(16<<20), size)
		assert.Less(t, len(ranges(size)), 700, size)
	}
}

func FuzzExamine(f *testing.F) {
	const most = 1 << 20
	seed := func(at uint32, size uint64, magic string) { f.Add([]byte(magic), at, size) }
	seed(1024+0x38, most, "\x53\xef")
	seed(0, most, "XFSB\x00\x00\x10\x00")
	seed(64<<10+0x40, most, btrfsMagic)
	seed(64<<10+0x40, most, btrfsTemporary)
	seed(1024, 1<<50, f2fsMagic)
	seed(0, 1024, "\xeb<\x90MSDOS\x00\x02\x01\x01\x00\x02")
	seed(446, 512, "\x80\x00\x00\x00\x83")
	seed(512, 4096, "LABELONE")
	seed(0, 1, "x")
	seed(8<<20+1024, 64<<20, string(bytes.Repeat([]byte{0xff}, 4096)))
	f.Fuzz(func(t *testing.T, data []byte, at uint32, size uint64) {
		device := sparse{data: data, at: int64(at), size: int64(size%(1<<62)) + 1, fail: -1}
		content, err := examine(context.Background(), device, device.size)
		if err != nil {
			t.Fatal(err) // every read succeeds
		}
		if content.Blank != (content.Type == "") || content.Blank && content.IsFileSystem {
			t.Fatalf("%+v", content)
		}
		there := data[:min(int64(len(data)), max(device.size-device.at, 0))]
		if content.Blank && device.at+int64(len(there)) <= headKept && !bytes.Equal(there, make([]byte, len(there))) {
			t.Fatalf("there is %q at %d of %d", there, at, device.size)
		}
		if !content.Blank && bytes.Equal(there, make([]byte, len(there))) {
			t.Fatalf("%+v where nothing is", content)
		}
	})
}

func BenchmarkExamine(b *testing.B) {
	const size = 1 << 40
	b.Run("blank", func(b *testing.B) {
		for b.Loop() {
			content, err := examine(b.Context(), sparse{size: size, fail: -1}, size)
			if err != nil || !content.Blank {
				b.Fatal(content, err)
			}
		}
	})
}
