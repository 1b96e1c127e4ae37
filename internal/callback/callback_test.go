// SPDX-License-Identifier: Apache-2.0

package callback

import (
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/volumekit/volumekit/internal/mountns"
)

func TestMain(m *testing.M) { os.Exit(mountns.Main(m)) }

func TestStopWaitsForTheCallsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		var ended, stopped atomic.Bool
		c := New(func() {
			<-proceed
			ended.Store(true)
		})
		go c.Call()
		synctest.Wait()
		go func() {
			c.Stop()
			stopped.Store(true)
		}()
		synctest.Wait()
		assert.False(t, stopped.Load())
		close(proceed)
		synctest.Wait()
		assert.True(t, ended.Load() && stopped.Load())
		ended.Store(false)
		c.Call()
		assert.False(t, ended.Load(), "it is not called any more")
		c.Stop()
	})
}

func TestTheFunctionItselfMayStop(t *testing.T) {
	calls := 0
	var c *Callback
	c = New(func() {
		calls++
		c.Stop()
	})
	c.Call()
	c.Call()
	assert.Equal(t, 1, calls)
}
