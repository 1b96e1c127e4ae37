// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"k8s.io/utils/exec"
)

// ears hear what a plugin says, to find secrets in it. Without canaries they are deaf.
type ears struct {
	canaries []string

	mu    sync.Mutex
	heard map[string]*bytes.Buffer // by where it was heard
}

func newEars(canaries []string) *ears {
	return &ears{canaries: canaries, heard: make(map[string]*bytes.Buffer)}
}

// everything is the verbosity at which all is logged.
const everything = 10

// context returns ctx with a logger that is listened to.
func (e *ears) context(ctx context.Context) context.Context {
	if len(e.canaries) == 0 {
		return ctx
	}
	output := textlogger.Output(writerFunc(func(p []byte) { e.hear("a log", string(p)) }))
	return klog.NewContext(ctx, textlogger.NewLogger(textlogger.NewConfig(output, textlogger.Verbosity(everything))))
}

func (e *ears) hearError(err error) {
	if err != nil {
		e.hear("an error", err.Error())
	}
}

func (e *ears) hearWarning(message string) { e.hear("a warning", message) }

func (e *ears) hearMount(call MountCall) {
	e.hear("the arguments of a mount", append(call.Options, call.Source, call.Target, call.FSType)...)
}

func (e *ears) hear(where string, texts ...string) {
	if len(e.canaries) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.heard[where] == nil {
		e.heard[where] = new(bytes.Buffer)
	}
	for _, text := range texts {
		e.heard[where].WriteString(text + "\n")
	}
}

// check fails the test if a canary was heard.
func (e *ears) check(t testing.TB) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	for where, heard := range e.heard {
		for _, canary := range e.canaries {
			assert.NotContains(t, heard.String(), canary, "a secret shows in %s", where)
		}
	}
}

// reveals returns the first canary that the text holds.
func (e *ears) reveals(text string) (canary string, found bool) {
	for _, canary := range e.canaries {
		if strings.Contains(text, canary) {
			return canary, true
		}
	}
	return "", false
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// hearingExec hears the arguments of the programs that it runs.
type hearingExec struct {
	exec.Interface
	ears *ears
}

func (h *hearingExec) Command(cmd string, args ...string) exec.Cmd {
	h.ears.hear("the arguments of a command", args...)
	return h.Interface.Command(cmd, args...)
}

func (h *hearingExec) CommandContext(ctx context.Context, cmd string, args ...string) exec.Cmd {
	h.ears.hear("the arguments of a command", args...)
	return h.Interface.CommandContext(ctx, cmd, args...)
}
