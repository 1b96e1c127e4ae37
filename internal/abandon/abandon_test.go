// SPDX-License-Identifier: Apache-2.0

package abandon

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errAnswer = errors.New("the answer")

func answer() (int, error) { return 42, errAnswer }

func TestRunReturnsWhatTheCallReturns(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	defer end()
	for name, ctx := range map[string]context.Context{
		"without an end": context.Background(),
		"with an end":    ended,
	} {
		t.Run(name, func(t *testing.T) {
			value, err := Run(ctx, answer)
			assert.Equal(t, 42, value)
			assert.Equal(t, errAnswer, err)
		})
	}
}

func TestRunReturnsTheCauseWhileTheCallGoesOn(t *testing.T) {
	why := errors.New("why")
	ctx, end := context.WithCancelCause(t.Context())
	started, release, finished := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		<-started
		end(why)
	}()
	value, err := Run(ctx, func() (int, error) {
		close(started)
		<-release
		close(finished)
		return 42, nil
	})
	assert.Zero(t, value)
	assert.Equal(t, why, err)
	close(release)
	<-finished
}

// lateContext has not ended when it is first asked, and has when the answer of the call is there.
type lateContext struct {
	context.Context
	asked int
}

func (c *lateContext) Done() <-chan struct{} {
	ended := make(chan struct{})
	if c.asked++; c.asked > 1 {
		synctest.Wait()
		close(ended)
	}
	return ended
}

func TestRunPrefersAnAnswerToTheEndOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 { // select takes either
			value, err := Run(&lateContext{Context: t.Context()}, answer)
			require.Equal(t, 42, value)
			require.Equal(t, errAnswer, err)
		}
	})
}

func TestRunDoesNotStartTheCallAfterTheEnd(t *testing.T) {
	why := errors.New("why")
	ctx, end := context.WithCancelCause(t.Context())
	end(why)
	_, err := Run(ctx, func() (int, error) {
		t.Error("started")
		return 0, nil
	})
	assert.Equal(t, why, err)
}

func TestAPanicInTheCallEndsTheProcess(t *testing.T) {
	const child = "ABANDON_TEST_PANIC"
	if os.Getenv(child) != "" {
		defer func() { _ = recover() }() // cannot hide it
		_, _ = Run(t.Context(), func() (int, error) { panic("a bug") })
		return
	}
	executable, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(executable, "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "panic: a bug")
}

func BenchmarkRun(b *testing.B) {
	ctx, end := context.WithCancel(b.Context())
	defer end()
	b.Run("direct", func(b *testing.B) {
		for b.Loop() {
			_, _ = Run(context.Background(), answer)
		}
	})
	b.Run("goroutine", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = Run(ctx, answer)
		}
	})
}
