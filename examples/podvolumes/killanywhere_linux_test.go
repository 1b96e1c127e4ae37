// SPDX-License-Identifier: Apache-2.0

package main

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/syscallfault"
)

// killed kills the command before each of its changes, and runs it again.
func (a *anywhere) killed(t *testing.T) {
	a.eachChange(t, kill, func(t *testing.T, w *world, ended ended) {
		requireKilled(t, ended)
		w.requireExplained(t)
		w.requireAgain(t)
	})
}

// killedForGood kills the command before each of its changes; after that nobody wants the pod any more.
func (a *anywhere) killedForGood(t *testing.T) {
	changes := a.eachChange(t, kill, func(t *testing.T, _ *world, ended ended) { requireKilled(t, ended) })
	assert.NotZero(t, changes)
}

func kill(int) syscallfault.Verdict { return syscallfault.Kill() }

func requireKilled(t *testing.T, ended ended) {
	t.Helper()
	require.Equal(t, syscall.SIGKILL, ended.status.Sys().(syscall.WaitStatus).Signal())
}
