// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/volume"
)

func TestOperationsOfOneKeyNeverOverlap(t *testing.T) {
	var s serial
	var inside, total atomic.Int32
	var running sync.WaitGroup
	for range 100 {
		running.Go(func() {
			assert.NoError(t, s.do(t.Context(), "key", func() error {
				assert.EqualValues(t, 1, inside.Add(1))
				total.Add(1)
				inside.Add(-1)
				return nil
			}))
		})
	}
	running.Wait()
	assert.EqualValues(t, 100, total.Load())
	assert.Empty(t, s.keys, "keys that nobody uses are forgotten")
}

func TestAnOperationThatIgnoresItsContextHoldsUpOnlyItsOwnKey(t *testing.T) {
	var s serial
	hang := make(chan struct{})
	started := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	abandoned := make(chan error)
	go func() {
		abandoned <- s.do(ctx, "hung", func() error {
			close(started)
			<-hang
			return nil
		})
	}()
	<-started
	cancel()
	require.ErrorIs(t, <-abandoned, volume.ErrUncertain)

	require.NoError(t, s.do(t.Context(), "other", func() error { return nil }))

	never := func() error {
		t.Error("ran although the earlier operation had not ended")
		return nil
	}
	inAMoment, cancelLater := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancelLater()
	err := s.do(inAMoment, "hung", never)
	require.ErrorIs(t, err, volume.ErrUncertain)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	err = s.do(ctx, "hung", never)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, volume.ErrUncertain, "it did not even wait")

	close(hang)
	require.NoError(t, s.do(t.Context(), "hung", func() error { return nil }), "the key is free again")
	assert.Empty(t, s.keys)
}

func TestAnOperationThatEndsWithItsContextReportsItsOwnError(t *testing.T) {
	var s serial
	ctx, cancel := context.WithCancel(t.Context())
	own := errors.New("its own error")
	err := s.do(ctx, "key", func() error {
		cancel()
		<-ctx.Done()
		return own
	})
	assert.Equal(t, own, err)
}
