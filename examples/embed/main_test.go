// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheExampleSetsUpAndTakesDownAPodsVolumes(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, run(t.Context(), root))
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	assert.Empty(t, entries)
}

func TestTheExampleHasAtMost40Lines(t *testing.T) {
	source, err := os.ReadFile("main.go")
	require.NoError(t, err)
	assert.LessOrEqual(t, bytes.Count(source, []byte("\n")), 40)
}
