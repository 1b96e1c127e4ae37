// SPDX-License-Identifier: Apache-2.0

package unmounting

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/mount-utils"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStepsHaveWords(t *testing.T) {
	assert.Equal(t, "as usual", Step(0).String())
	assert.Equal(t, "by force", Forced.String())
	assert.Equal(t, "lazily", Lazy.String())
}

func TestEachStepLeavesAsMuchTimeToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithTimeout(t.Context(), 6*time.Second)
		defer end()
		assert.Equal(t, 2*time.Second, Limit(ctx, Plain))
		time.Sleep(2 * time.Second)
		assert.Equal(t, 2*time.Second, Limit(ctx, Forced))
		time.Sleep(2 * time.Second)
		assert.Equal(t, 2*time.Second, Limit(ctx, Lazy))
		assert.Equal(t, MaxStep, Limit(t.Context(), Plain))
	})
	far, end := context.WithTimeout(t.Context(), time.Hour)
	defer end()
	assert.Equal(t, MaxStep, Limit(far, Plain))
}

// own knows the steps.
type own struct{ mount.Interface }

func (own) UnmountInSteps(context.Context, string) (Step, error) { return Lazy, nil }

func TestAMounterThatKnowsTheStepsIsAsked(t *testing.T) {
	step, err := New(own{}).Unmount(t.Context(), "/target")
	require.NoError(t, err)
	assert.Equal(t, Lazy, step)
}

// foreign has no force and hangs until it is released.
type foreign struct {
	mount.Interface
	calls   atomic.Int32
	release chan error
}

func (f *foreign) Unmount(string) error {
	f.calls.Add(1)
	return <-f.release
}

// forcing has force.
type forcing struct {
	*foreign
	timeout time.Duration
}

func (f *forcing) UnmountWithForce(target string, timeout time.Duration) error {
	f.timeout = timeout
	return f.foreign.Unmount(target)
}

func TestAnotherMounterIsNotWaitedForBeyondTheContextAndCalledOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mounter := &foreign{release: make(chan error)}
		unmounter := New(mounter)
		for range 5 {
			ctx, end := context.WithTimeout(t.Context(), time.Second)
			_, err := unmounter.Unmount(ctx, "/target")
			end()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.ErrorContains(t, err, "/target")
		}
		assert.EqualValues(t, 1, mounter.calls.Load(), "retries join the call that hangs")

		refusal := errors.New("refused")
		go func() { mounter.release <- refusal }()
		step, err := unmounter.Unmount(t.Context(), "/target")
		assert.Equal(t, refusal, err, "the result of the call that is under way")
		assert.Equal(t, Plain, step)

		close(mounter.release)
		_, err = unmounter.Unmount(t.Context(), "/target")
		require.NoError(t, err)
		assert.EqualValues(t, 2, mounter.calls.Load(), "after the end of the call there is a new one")
	})
}

func TestAnotherMounterUsesItsForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mounter := &forcing{foreign: &foreign{release: make(chan error)}}
		close(mounter.release)
		ctx, end := context.WithTimeout(t.Context(), 9*time.Second)
		defer end()
		_, err := New(mounter).Unmount(ctx, "/target")
		require.NoError(t, err)
		assert.Equal(t, 3*time.Second, mounter.timeout)
	})
}

func TestAnotherMounterIsNotCalledAfterTheEnd(t *testing.T) {
	mounter := &foreign{release: make(chan error)}
	ctx, end := context.WithCancel(t.Context())
	end()
	_, err := New(mounter).Unmount(ctx, "/target")
	require.ErrorIs(t, err, context.Canceled)
	assert.Zero(t, mounter.calls.Load())
}

func TestOnlyAbandonedAttemptsOnAnotherMountAreEarlier(t *testing.T) {
	var attempts Attempts
	release := make(chan struct{})
	wait := func() error { <-release; return nil }
	old := attempts.Start(Key{Target: "/a", Mount: 1}, wait)
	assert.Empty(t, attempts.Earlier("/a", 2), "somebody waits for it")
	attempts.Abandon(old)
	assert.Equal(t, []*Attempt{old}, attempts.Earlier("/a", 2))
	assert.Empty(t, attempts.Earlier("/a", 1), "it is about this mount")
	assert.Empty(t, attempts.Earlier("/b", 2))
	attempts.Forget(old)
	assert.Empty(t, attempts.Earlier("/a", 2))
	close(release)
	<-old.Done()
}
