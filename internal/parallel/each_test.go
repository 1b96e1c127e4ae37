// SPDX-License-Identifier: Apache-2.0

package parallel

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

func TestEachCallsOncePerIndex(t *testing.T) {
	for _, n := range []int{0, 1, 2, 100} {
		calls := make([]atomic.Int32, n)
		Each(n, 8, func(i int) { calls[i].Add(1) })
		for i := range calls {
			assert.EqualValues(t, 1, calls[i].Load(), "%d of %d", i, n)
		}
	}
}

func TestEachMakesAsManyCallsAtOnceAsItMayAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 4
		var inside atomic.Int32
		next := make(chan struct{})
		go Each(10, limit, func(int) {
			inside.Add(1)
			<-next
			inside.Add(-1)
		})
		synctest.Wait()
		assert.EqualValues(t, limit, inside.Load())
		next <- struct{}{}
		synctest.Wait()
		assert.EqualValues(t, limit, inside.Load(), "the next one takes the place")
		close(next)
	})
}
