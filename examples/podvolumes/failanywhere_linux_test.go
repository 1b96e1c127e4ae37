// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/volumekit/volumekit/internal/syscallfault"
)

// failing makes each change of the command fail. Some of them the command can do without, and ends the same; where it
// cannot it says what failed. Each change fails with one of the errors, the next change and the next kind of volume with
// the next one: so the changes that all kinds have in common meet all four.
func (a *anywhere) failing(t *testing.T) {
	errnos := []syscall.Errno{syscall.ENOSPC, syscall.EIO, syscall.EBUSY, syscall.EMFILE}
	fail := func(n int) syscallfault.Verdict { return syscallfault.Fail(errnos[(n+a.rotation)%len(errnos)]) }
	a.eachChange(t, fail, func(t *testing.T, w *world, ended ended) {
		if ended.status.ExitCode() == allWell {
			assert.Equal(t, a.end, w.state(t), "it was said to be well")
			return
		}
		t.Logf("it said: %s", ended.complaints)
		assert.Equal(t, notServed, ended.status.ExitCode())
		assert.Regexp(t, `default/web|"(data|fast|host)"|`+regexp.QuoteMeta(w.dir), ended.complaints)
		says := func(errno syscall.Errno) bool { return strings.Contains(ended.complaints, errno.Error()) }
		assert.True(t, slices.ContainsFunc(errnos, says), "it does not say why")
		w.requireExplained(t)
		w.requireAgain(t)
	})
}
