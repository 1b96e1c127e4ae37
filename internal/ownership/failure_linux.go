// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// failure is what the goroutines of one walk tell each other of failing.
type failure struct {
	happened atomic.Bool
	moved    atomic.Bool // a directory was, while something beneath it was walked

	mu  sync.Mutex
	err error
}

func (f *failure) add(call, path string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = fmt.Errorf("%s %q: %w", call, clip(path), err)
		f.happened.Store(true)
	}
}

func (f *failure) first() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// clip shortens a path that no system call would accept; in a tree of any depth it may have megabytes.
func clip(path string) string {
	const limit, end = 4096, 1024 // PATH_MAX, and what is kept at either end
	if len(path) <= limit {
		return path
	}
	return path[:end] + "…" + path[len(path)-end:]
}
