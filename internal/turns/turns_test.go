// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestThoseWhoUseOneKeyNeverOverlap(t *testing.T) {
	var s Turns
	var inside, total atomic.Int32
	var running sync.WaitGroup
	for range 100 {
		running.Go(func() {
			release, err := s.Acquire(t.Context(), "key")
			if !assert.NoError(t, err) {
				return
			}
			assert.EqualValues(t, 1, inside.Add(1))
			total.Add(1)
			inside.Add(-1)
			release()
		})
	}
	running.Wait()
	assert.EqualValues(t, 100, total.Load())
	assert.Empty(t, s.keys, "keys that nobody uses are forgotten")
}

func TestWaitingForAKeyEndsWithTheContextAndHoldsUpNoOtherKey(t *testing.T) {
	var s Turns
	release, err := s.Acquire(t.Context(), "held")
	require.NoError(t, err)
	other, err := s.Acquire(t.Context(), "other")
	require.NoError(t, err)
	other()

	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error)
	go func() {
		_, err := s.Acquire(ctx, "held")
		waiting <- err
	}()
	cancel()
	require.ErrorIs(t, <-waiting, context.Canceled)
	_, err = s.Acquire(ctx, "free")
	require.ErrorContains(t, err, "not begun")

	release()
	again, err := s.Acquire(t.Context(), "held")
	require.NoError(t, err, "the key is free again")
	again()
	assert.Empty(t, s.keys)
}
