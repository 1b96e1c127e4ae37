// SPDX-License-Identifier: Apache-2.0

// Package callback calls a function until that is stopped, after which it neither runs nor will.
package callback

import (
	"bytes"
	"runtime"
	"slices"
	"sync"
)

// Callback is a function that is called by several goroutines.
type Callback struct {
	f func()

	mu       sync.Mutex
	stopped  bool
	callers  []string // the goroutines that are in f
	returned sync.Cond
}

// New returns a Callback of the function.
func New(f func()) *Callback {
	c := &Callback{f: f}
	c.returned.L = &c.mu
	return c
}

// Call calls the function unless that has been stopped.
func (c *Callback) Call() {
	caller := goroutine()
	c.mu.Lock()
	if c.stopped {
		c.mu.Unlock()
		return
	}
	c.callers = append(c.callers, caller)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		at := slices.Index(c.callers, caller)
		c.callers = slices.Delete(c.callers, at, at+1)
		c.returned.Broadcast()
	}()
	c.f()
}

// Stop makes sure that the function is not called any more, and waits for the calls of other goroutines. It may be called by the
// function itself, and more than once.
func (c *Callback) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	if len(c.callers) == 0 {
		return
	}
	self := goroutine()
	for slices.ContainsFunc(c.callers, func(caller string) bool { return caller != self }) {
		c.returned.Wait()
	}
}

// goroutine returns what tells the calling goroutine from others: the number with which its stack trace begins. It decides
// nothing but whether waiting would be for oneself.
func goroutine() string {
	buffer := make([]byte, 64)
	number, _, _ := bytes.Cut(bytes.TrimPrefix(buffer[:runtime.Stack(buffer, false)], []byte("goroutine ")), []byte(" "))
	return string(number)
}
