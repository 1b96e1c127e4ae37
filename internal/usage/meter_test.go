// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// takes returns a measurement that takes d, and counts those that were made and those that are under way.
func takes(d time.Duration, made, underWay *atomic.Int64) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		underWay.Add(1)
		defer underWay.Add(-1)
		select {
		case <-time.After(d):
			return made.Add(1), nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// metering runs a test in a bubble in which a meter runs.
func metering(t *testing.T, test func(t *testing.T, m *Meter[string, int64])) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMeter[string, int64](MeterOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			m.Run(ctx)
		}()
		test(t, m)
		cancel()
		<-ended
	})
}

func TestAVolumeIsMeasuredAtOnceAndThenEveryPeriod(t *testing.T) {
	metering(t, func(t *testing.T, m *Meter[string, int64]) {
		var made, underWay atomic.Int64
		_, known := m.Last("a")
		assert.False(t, known)
		start := time.Now()
		m.Add("a", takes(time.Millisecond, &made, &underWay))
		_, known = m.Last("a")
		assert.False(t, known)
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		last, known := m.Last("a")
		assert.True(t, known)
		assert.Equal(t, Measurement[int64]{Value: 1, Time: start.Add(time.Millisecond)}, last)
		time.Sleep(100 * time.Minute)
		synctest.Wait()
		assert.InDelta(t, 100, made.Load(), 12)
	})
}

func TestNothingIsDoneWhenNothingIsDue(t *testing.T) {
	metering(t, func(t *testing.T, m *Meter[string, int64]) {
		synctest.Wait() // a timer that runs would let the clock go on below
		var made, underWay atomic.Int64
		start := time.Now()
		m.Add("a", takes(0, &made, &underWay))
		synctest.Wait()
		assert.Equal(t, int64(1), made.Load())
		assert.Equal(t, start, time.Now())
	})
}

func TestVolumesAreMeasuredOneAtATimeWithPausesInProportion(t *testing.T) {
	metering(t, func(t *testing.T, m *Meter[string, int64]) {
		var made, underWay, most atomic.Int64
		const took = 100 * time.Millisecond
		for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t",
			"A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L", "M", "N", "O", "P", "Q", "R", "S", "T"} {
			measure := takes(took, &made, &underWay)
			m.Add(key, func(ctx context.Context) (int64, error) {
				most.Store(max(most.Load(), underWay.Load()))
				return measure(ctx)
			})
		}
		start := time.Now()
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Zero(t, most.Load())
		busy := time.Duration(made.Load()) * took
		assert.LessOrEqual(t, busy*walkers, time.Since(start)/10+walkers*took, "a tenth of one core")
		assert.Greater(t, busy*walkers, time.Since(start)/20)
		for key := range m.subjects {
			last, known := m.Last(key)
			assert.True(t, known)
			assert.Less(t, time.Since(last.Time), 3*time.Minute, "nobody starves: %s", key)
		}
	})
}

func TestASlowVolumeIsMeasuredLessOften(t *testing.T) {
	metering(t, func(t *testing.T, m *Meter[string, int64]) {
		var slow, fast, underWay atomic.Int64
		m.Add("slow", takes(9*time.Second, &slow, &underWay))
		m.Add("fast", takes(time.Millisecond, &fast, &underWay))
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		assert.InDelta(t, 10*60*60/(20*9), slow.Load(), 25)
		assert.Greater(t, fast.Load(), int64(100))
	})
}

func TestAVolumeThatIsSlowBeyondMeasureIsMeasuredEveryHour(t *testing.T) {
	metering(t, func(t *testing.T, m *Meter[string, int64]) {
		var made, underWay atomic.Int64
		m.Add("slow", takes(5*time.Minute, &made, &underWay))
		time.Sleep(30 * time.Hour)
		synctest.Wait()
		assert.InDelta(t, 28, made.Load(), 4)
	})
}

func TestAServerThatDoesNotAnswerDelaysItsOwnVolume(t *testing.T) {
	metering(t, func(t *testing.T, m *Meter[string, int64]) {
		var calls, made, underWay atomic.Int64
		answer := make(chan error)
		m.Add("dead", func(ctx context.Context) (int64, error) {
			calls.Add(1)
			return 42, <-answer
		})
		synctest.Wait()
		m.Add("a", takes(time.Millisecond, &made, &underWay))
		time.Sleep(patience + time.Second)
		synctest.Wait()
		assert.Equal(t, int64(1), made.Load())
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.InDelta(t, 60, made.Load(), 8)
		assert.Equal(t, int64(1), calls.Load(), "one goroutine waits, whatever time it takes")
		_, known := m.Last("dead")
		assert.False(t, known)
		answer <- errors.New("it is gone")
		synctest.Wait()
		last, known := m.Last("dead")
		assert.True(t, known)
		assert.EqualError(t, last.Err, "it is gone")
		time.Sleep(2 * time.Minute)
		answer <- nil
		synctest.Wait()
		last, _ = m.Last("dead")
		assert.Equal(t, Measurement[int64]{Value: 42, Time: time.Now()}, last)
		m.Remove("dead")
	})
}

func TestAnErrorKeepsWhatWasMeasuredBefore(t *testing.T) {
	metering(t, func(t *testing.T, m *Meter[string, int64]) {
		m.Add("a", func(context.Context) (int64, error) { return 42, nil })
		synctest.Wait()
		first, _ := m.Last("a")
		require.NoError(t, first.Err)
		err := errors.New("not now")
		m.Add("a", func(context.Context) (int64, error) { return 0, err })
		time.Sleep(time.Minute + 10*time.Second)
		synctest.Wait()
		last, known := m.Last("a")
		assert.True(t, known)
		assert.Equal(t, Measurement[int64]{Value: 42, Time: first.Time, Err: err}, last)
	})
}

func TestWhatIsRemovedIsForgottenAndNoLongerMeasured(t *testing.T) {
	metering(t, func(t *testing.T, m *Meter[string, int64]) {
		var made, underWay atomic.Int64
		m.Add("a", takes(5*time.Second, &made, &underWay))
		synctest.Wait()
		assert.Equal(t, int64(1), underWay.Load())
		m.Remove("a")
		m.Remove("a")
		synctest.Wait()
		assert.Zero(t, underWay.Load(), "its context has ended")
		_, known := m.Last("a")
		assert.False(t, known)
		time.Sleep(time.Hour)
		assert.Zero(t, made.Load())
	})
}

func TestAnAddedKeyKeepsItsTurn(t *testing.T) {
	metering(t, func(t *testing.T, m *Meter[string, int64]) {
		for i := range int64(1000) {
			m.Add("a", func(context.Context) (int64, error) { return i, nil })
			synctest.Wait()
		}
		last, _ := m.Last("a")
		assert.Zero(t, last.Value)
		time.Sleep(time.Minute + 10*time.Second)
		synctest.Wait()
		last, _ = m.Last("a")
		assert.Equal(t, int64(999), last.Value)
	})
}

func TestRunEndsTheMeasurementUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made, underWay atomic.Int64
		m := NewMeter[string, int64](MeterOptions{Period: time.Second})
		m.Add("a", takes(time.Hour, &made, &underWay))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		m.Run(ctx)
		assert.Zero(t, underWay.Load())
		_, known := m.Last("a")
		assert.False(t, known, "being interrupted is no result")
	})
}
