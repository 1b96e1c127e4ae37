// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// defaultPeriod and the bounds of a period are those of [MeterOptions].
	defaultPeriod = time.Minute
	maxPeriod     = time.Hour
	jitter        = 0.1 // of the period, more or less

	// rest is how many times as long as a measurement took the meter pauses after it. A measurement uses as many cores as
	// there are walkers, and all of them together are to use a tenth of one core.
	rest = 10*walkers - 1

	// patience is how long others wait for a measurement. It is far more than a walk of a million files takes.
	patience = 10 * time.Second
)

// MeterOptions may be left empty.
type MeterOptions struct {
	// Clock tells the time. Nil stands for the real one.
	Clock clock.Clock

	// Period is about how long after a measurement a volume is measured again, if measuring it takes little; zero stands for a
	// minute. It is a tenth longer or shorter, so that volumes that were added together are not measured together.
	Period time.Duration
}

// Measurement is what is known of one volume.
type Measurement[T any] struct {
	// Value is the last one that was measured without an error, and Time when it was; the zero time stands for never.
	Value T
	Time  time.Time

	// Err is why the last attempt failed; nil if it did not.
	Err error
}

// Meter measures many volumes again and again without being a burden: one at a time, with pauses that keep it to about a
// tenth of one core whatever there is to measure. A volume that takes long to measure is measured less often: it alone takes
// no more than that tenth either, except that an hour is the longest period.
//
// Keys tell the volumes apart. A Meter is safe for concurrent use.
type Meter[K comparable, T any] struct {
	clock  clock.Clock
	period time.Duration
	wake   chan struct{} // holds one token when there may be something new to do

	mu       sync.Mutex
	subjects map[K]*subject[T]
}

// subject is one volume.
type subject[T any] struct {
	measure func(context.Context) (T, error)
	last    Measurement[T]
	due     time.Time
	cancel  context.CancelFunc // of the measurement under way; nil if there is none
}

// NewMeter returns a Meter without volumes, which does nothing until [Meter.Run] is called.
func NewMeter[K comparable, T any](options MeterOptions) *Meter[K, T] {
	m := &Meter[K, T]{
		clock:    options.Clock,
		period:   options.Period,
		wake:     make(chan struct{}, 1),
		subjects: map[K]*subject[T]{},
	}
	if m.clock == nil {
		m.clock = clock.RealClock{}
	}
	if m.period <= 0 {
		m.period = defaultPeriod
	}
	return m
}

// Add has a volume measured from now on, as soon as its turn comes. The function measures it once; it may take its time, and
// it returns soon after its context has ended. It is not called again before it has returned. A key that is there already
// keeps what is known, and the function is used from the next time on.
func (m *Meter[K, T]) Add(key K, measure func(context.Context) (T, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, ok := m.subjects[key]; ok {
		s.measure = measure
		return
	}
	m.subjects[key] = &subject[T]{measure: measure, due: m.clock.Now()}
	m.signal()
}

// Remove forgets a volume, and ends the context of a measurement that is under way; it does not wait for that. An unknown key
// is no mistake.
func (m *Meter[K, T]) Remove(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.subjects[key]
	if !ok {
		return
	}
	delete(m.subjects, key)
	if s.cancel != nil {
		s.cancel()
	}
}

// Last returns what is known of a volume, at once; false if the key is unknown or the first measurement is still to come.
func (m *Meter[K, T]) Last(key K) (Measurement[T], bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.subjects[key]
	if !ok || s.last.Time.IsZero() && s.last.Err == nil {
		return Measurement[T]{}, false
	}
	return s.last, true
}

// Run measures until ctx ends, and returns when no measurement is under way any more. It is called once at a time.
//
// A volume whose measurement does not end, since a server does not answer, keeps the others waiting for ten seconds, once;
// then it is left to itself.
func (m *Meter[K, T]) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for ctx.Err() == nil {
		one, s, wait := m.next(ctx)
		if s == nil {
			m.sleep(ctx, wait)
			continue
		}
		done := make(chan time.Duration, 1)
		running.Go(func() { done <- m.measure(one, s) })
		timer := m.clock.NewTimer(patience)
		select {
		case took := <-done:
			timer.Stop()
			m.pause(ctx, took*rest)
		case <-timer.C():
		}
	}
}

// never is longer than anybody sleeps.
const never time.Duration = 1<<63 - 1

// next returns the volume that has been due for the longest time, and the context to measure it with, and otherwise how long
// it is until one will be. It looks at all of them; the pauses between measurements are far longer than that takes.
func (m *Meter[K, T]) next(ctx context.Context) (one context.Context, due *subject[T], wait time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	wait = never
	for _, s := range m.subjects {
		if s.cancel != nil {
			continue
		}
		wait = min(wait, s.due.Sub(now))
		if !s.due.After(now) && (due == nil || s.due.Before(due.due)) {
			due = s
		}
	}
	if due != nil {
		one, due.cancel = context.WithCancel(ctx)
	}
	return one, due, wait
}

// measure measures one volume, and returns how long that took.
func (m *Meter[K, T]) measure(ctx context.Context, s *subject[T]) (took time.Duration) {
	m.mu.Lock()
	measure := s.measure
	m.mu.Unlock()

	start := m.clock.Now()
	value, err := measure(ctx)
	took = m.clock.Since(start)

	m.mu.Lock()
	defer m.mu.Unlock()
	interrupted := ctx.Err() != nil
	s.cancel()
	s.cancel = nil
	if interrupted {
		return took // Run ends, or the volume has been removed
	}
	s.last.Err = err
	period := m.period
	if err == nil {
		s.last.Value, s.last.Time = value, m.clock.Now()
		period = max(period, min(took, maxPeriod)*(rest+1))
	}
	period = min(period, max(m.period, maxPeriod))
	period += time.Duration((rand.Float64()*2 - 1) * jitter * float64(period))
	s.due = m.clock.Now().Add(period)
	m.signal()
	return took
}

// pause waits, whatever there is to do.
func (m *Meter[K, T]) pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := m.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}

// sleep waits until there may be something to do.
func (m *Meter[K, T]) sleep(ctx context.Context, d time.Duration) {
	var timeout <-chan time.Time
	if d < never {
		timer := m.clock.NewTimer(d)
		defer timer.Stop()
		timeout = timer.C()
	}
	select {
	case <-timeout:
	case <-m.wake:
	case <-ctx.Done():
	}
}

func (m *Meter[K, T]) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}
