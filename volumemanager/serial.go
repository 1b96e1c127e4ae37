// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/volumekit/volumekit/volume"
)

// grace is how long an operation whose context has ended may take to return by itself, with an error of its own, before
// it is left to itself.
const grace = time.Second

// serial runs operations of one key one after the other. An operation that does not end when its context does is left
// behind, and holds up nothing but the later operations of its key.
type serial struct {
	mu   sync.Mutex
	keys map[string]*turn
}

// turn is the right to run the operations of one key.
type turn struct {
	token chan struct{} // holds one element while nobody runs
	users int           // those who run or wait
}

// acquire waits for the operations of the key that were there before. An error says that ctx ended first; it matches
// volume.ErrUncertain if there was such an operation. Without an error release must be called once.
func (s *serial) acquire(ctx context.Context, key string) (release func(), err error) {
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

// do runs f in its turn. An error that matches volume.ErrUncertain may say that ctx ended first and that f goes on, or was
// not started: f must not write to what the caller reads in that case.
func (s *serial) do(ctx context.Context, key string, f func() error) error {
	release, err := s.acquire(ctx, key)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		err := f()
		release()
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-ended:
		return err
	case <-timer.C:
		return volume.Errorf(volume.ErrUncertain, "given up waiting for an operation that goes on: %w", context.Cause(ctx))
	}
}

func (s *serial) join(key string) *turn {
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

func (s *serial) leave(key string, t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.users--
	if t.users == 0 {
		delete(s.keys, key)
	}
}
