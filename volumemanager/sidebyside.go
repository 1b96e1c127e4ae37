// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"sync"
)

// sideBySideAtMost bounds the threads that one call may need: system calls that block take one each.
const sideBySideAtMost = 64

// sideBySide calls f with 0 to n-1, several of them at the same time, and waits for all.
func sideBySide(n int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	slots := make(chan struct{}, sideBySideAtMost)
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
