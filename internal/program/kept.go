// SPDX-License-Identifier: Apache-2.0

package program

import "fmt"

// kept holds the beginning and the end of what is written to it.
type kept struct {
	head, tail int // how many bytes of each
	first      []byte
	last       []byte // of what follows first; up to twice tail, so that it is seldom moved
	dropped    int64
}

func (k *kept) Write(p []byte) (int, error) {
	n := len(p)
	fits := min(len(p), k.head-len(k.first))
	k.first = append(k.first, p[:fits]...)
	p = p[fits:]
	if more := len(p) - k.tail; more > 0 {
		k.dropped += int64(more + len(k.last))
		k.last = append(k.last[:0], p[more:]...)
		return n, nil
	}
	k.last = append(k.last, p...)
	if len(k.last) > 2*k.tail {
		k.trim()
	}
	return n, nil
}

func (k *kept) trim() {
	if more := len(k.last) - k.tail; more > 0 {
		k.dropped += int64(more)
		k.last = k.last[:copy(k.last, k.last[more:])]
	}
}

// bytes returns what was kept, with a note where something is missing between a beginning and an end.
func (k *kept) bytes() []byte {
	k.trim()
	text := append([]byte(nil), k.first...)
	if k.dropped > 0 && k.tail > 0 {
		text = fmt.Appendf(text, "\n[... %d bytes ...]\n", k.dropped)
	}
	return append(text, k.last...)
}
