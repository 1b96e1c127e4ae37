// SPDX-License-Identifier: Apache-2.0

// Package turns has those wait for each other who work on the same thing.
package turns

import (
	"context"
	"fmt"
	"sync"

	"github.com/volumekit/volumekit/volume"
)

// Turns are the rights to use keys, each by one at a time. The zero value is ready, and its methods may be called concurrently.
type Turns struct {
	mu   sync.Mutex
	keys map[string]*turn
}

// turn is the right to use one key.
type turn struct {
	token chan struct{} // holds one element while nobody runs
	users int           // those who run or wait
}

// Acquire waits for the operations of the key that were there before. An error says that ctx ended first; it matches
// [volume.ErrUncertain] if there was such an operation. Without an error release must be called once.
func (s *Turns) Acquire(ctx context.Context, key string) (release func(), err error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("not begun: %w", context.Cause(ctx))
	}
	t := s.join(key)
	select {
	case <-t.token:
	case <-ctx.Done():
		s.leave(key, t)
		return nil, volume.Errorf(volume.ErrUncertain, "an earlier operation has not ended: %w", context.Cause(ctx))
	}
	return func() {
		t.token <- struct{}{}
		s.leave(key, t)
	}, nil
}

func (s *Turns) join(key string) *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.keys[key]
	if t == nil {
		t = &turn{token: make(chan struct{}, 1)}
		t.token <- struct{}{}
		if s.keys == nil {
			s.keys = make(map[string]*turn)
		}
		s.keys[key] = t
	}
	t.users++
	return t
}

func (s *Turns) leave(key string, t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.users--
	if t.users == 0 {
		delete(s.keys, key)
	}
}
