// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// progress shows on a terminal how many pods are done. On anything else it shows nothing.
type progress struct {
	out   io.Writer // nil if it is no terminal
	verb  string
	total int

	mu   sync.Mutex
	done int
}

func newProgress(out io.Writer, verb string, total int) *progress {
	p := &progress{verb: verb, total: total}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		p.out = out
		p.draw()
	}
	return p
}

// step says that one more pod is done. It may be called concurrently.
func (p *progress) step() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	p.draw()
}

func (p *progress) draw() {
	if p.out != nil {
		_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s: %d of %d pods", p.verb, p.done, p.total)
	}
}

// end wipes the line.
func (p *progress) end() {
	if p.out != nil {
		_, _ = fmt.Fprint(p.out, "\r\x1b[K")
	}
}
