// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/volumekit/volumekit/internal/abandon"
	"github.com/volumekit/volumekit/volume"
)

// stuck holds the calls that were abandoned and still hang, by the path that they work on. Another call for the same path
// waits for the one that hangs, in the goroutine of its caller: so a server that is down costs one goroutine however often
// it is tried, and nothing that was abandoned goes on beside a later call for the same path.
type stuck struct {
	some  atomic.Bool // spares the usual call the lock
	mu    sync.Mutex
	calls map[string]*call
}

// call is one call of f in await.
type call struct {
	state atomic.Int32
	ended chan struct{} // made when the call is abandoned
}

const (
	waiting int32 = iota
	running
	ended
	revoked   // before it was running
	abandoned // while it was running
)

// await calls f, which works on path and may hang. When ctx ends first, f is abandoned and the error matches ErrUncertain;
// op says what f does.
func await[T any](ctx context.Context, s *stuck, op, path string, f func() (T, error)) (T, error) {
	var none T
	if s.some.Load() {
		if err := s.wait(ctx, path); err != nil {
			return none, uncertain(op, path, err)
		}
	}
	c := &call{}
	value, err := abandon.Run(ctx, func() (T, error) {
		if !c.state.CompareAndSwap(waiting, running) {
			return none, nil
		}
		value, err := f()
		if !c.state.CompareAndSwap(running, ended) {
			s.remove(path, c)
		}
		return value, err
	})
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		if !c.state.CompareAndSwap(waiting, revoked) {
			s.add(path, c)
		}
		return none, uncertain(op, path, err)
	}
	return value, err
}

func uncertain(op, path string, err error) error {
	return volume.Errorf(volume.ErrUncertain, "%s %q: no answer: %w", op, path, err)
}

// add enters a call that was running when its context ended.
func (s *stuck) add(path string, c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.ended = make(chan struct{})
	if !c.state.CompareAndSwap(running, abandoned) {
		return // it has ended after all
	}
	if s.calls == nil {
		s.calls = make(map[string]*call)
	}
	s.calls[path] = c
	s.some.Store(true)
}

// remove takes out a call that was abandoned and has ended.
func (s *stuck) remove(path string, c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(c.ended)
	if s.calls[path] == c {
		delete(s.calls, path)
	}
	s.some.Store(len(s.calls) > 0)
}

// wait returns once no call hangs on path, or with the cause of ctx's end.
func (s *stuck) wait(ctx context.Context, path string) error {
	for {
		s.mu.Lock()
		c := s.calls[path]
		s.mu.Unlock()
		if c == nil {
			return nil
		}
		select {
		case <-c.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
