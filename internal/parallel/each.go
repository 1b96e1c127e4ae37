// SPDX-License-Identifier: Apache-2.0

// Package parallel does many things at the same time, but not all of them.
package parallel

import "sync"

// Each calls f with 0 to n-1, at most limit of them at the same time, and returns when all have returned. A call that blocks
// in the kernel takes a thread, of which limit is the bound. A single call is made by the goroutine of the caller.
func Each(n, limit int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	slots := make(chan struct{}, limit)
	var running sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	running.Wait()
}
