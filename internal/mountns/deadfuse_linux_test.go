// SPDX-License-Identifier: Apache-2.0

package mountns

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestACallHangsOnADeadFUSEServerUntilItIsKilled(t *testing.T) {
	RequirePrivate(t)
	CheckNoMountsLeft(t)
	dir := t.TempDir()
	kill := DeadFUSE(t, dir)

	answer := make(chan error, 1)
	waiting := make(chan struct{})
	go func() {
		var stat unix.Stat_t
		close(waiting)
		answer <- unix.Stat(dir, &stat)
	}()
	<-waiting
	// An answer by now would be from something other than the server.
	assert.Empty(t, answer)

	kill()
	assert.Error(t, <-answer)
	_, err := os.Stat(dir)
	assert.ErrorIs(t, err, unix.ENOTCONN)
}

func TestTheCleanupOfDeadFUSEFreesWhoHangsOnIt(t *testing.T) {
	RequirePrivate(t)
	CheckNoMountsLeft(t)
	answer := make(chan error, 1)
	t.Run("mounted", func(t *testing.T) {
		dir := t.TempDir()
		DeadFUSE(t, dir)
		go func() {
			var stat unix.Stat_t
			answer <- unix.Stat(dir, &stat)
		}()
	})
	<-answer // a hang here is the failure
}

func TestATestMayUnmountDeadFUSEByItself(t *testing.T) {
	RequirePrivate(t)
	CheckNoMountsLeft(t)
	dir := t.TempDir()
	DeadFUSE(t, dir)
	require.NoError(t, unix.Unmount(dir, 0))
	_, err := os.Stat(dir)
	require.NoError(t, err)
}
