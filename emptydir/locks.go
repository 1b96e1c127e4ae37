// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"context"
	"sync"
)

// volumeLocks lets one operation at a time work on each volume. Without that two that set up a volume at once would both
// find no mount, and stack two.
type volumeLocks struct {
	mu   sync.Mutex
	held map[string]chan struct{} // by the volume's path; closed when it is let go
}

// lock waits until nobody works on the volume at path, or until ctx ends, whose error it then returns.
func (l *volumeLocks) lock(ctx context.Context, path string) (unlock func(), err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		busy := l.tryLock(path)
		if busy == nil {
			return func() { l.unlock(path) }, nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
		}
	}
}

// tryLock returns nil if it took the lock, and otherwise what is closed when it is worth another try.
func (l *volumeLocks) tryLock(path string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if busy, held := l.held[path]; held {
		return busy
	}
	if l.held == nil {
		l.held = make(map[string]chan struct{})
	}
	l.held[path] = make(chan struct{})
	return nil
}

func (l *volumeLocks) unlock(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.held[path])
	delete(l.held, path)
}
