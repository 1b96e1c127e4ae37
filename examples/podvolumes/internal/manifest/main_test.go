// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/volumekit/volumekit/examples/podvolumes/internal/manifest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// load reads a text as standard input.
func load(t *testing.T, text string, opts manifest.Options) (*manifest.Result, []string) {
	t.Helper()
	opts.Stdin = strings.NewReader(text)
	result, errs := manifest.Load(context.Background(), []string{"-"}, opts)
	return result, messages(t, errs)
}

// loadAll reads a text that has no fault.
func loadAll(t *testing.T, text string) *manifest.Result {
	t.Helper()
	result, errs := load(t, text, manifest.Options{})
	require.Empty(t, errs)
	return result
}

// messages returns the errors' texts after checking what holds for each error.
func messages(t *testing.T, errs []error) []string {
	t.Helper()
	var texts []string
	for _, err := range errs {
		var typed *manifest.Error
		require.ErrorAs(t, err, &typed)
		require.NotNil(t, typed.Err)
		assert.NotEmpty(t, typed.File)
		assert.True(t, errors.Is(err, typed.Err))
		assert.NotContains(t, err.Error(), "\n")
		texts = append(texts, err.Error())
	}
	return texts
}

func podNames(result *manifest.Result) []string {
	var names []string
	for _, pod := range result.Pods {
		names = append(names, pod.Pod.Namespace+"/"+pod.Pod.Name)
	}
	return names
}

func ignored(result *manifest.Result) []string {
	var lines []string
	for _, i := range result.Ignored {
		lines = append(lines, i.Origin.String()+" "+i.Reason)
	}
	return lines
}
