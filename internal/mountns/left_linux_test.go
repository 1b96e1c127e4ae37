// SPDX-License-Identifier: Apache-2.0

package mountns

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// recorder stands in for a test that fails.
type recorder struct {
	testing.TB
	cleanup func()
	failure string
}

func (r *recorder) Cleanup(f func())  { r.cleanup = f }
func (r *recorder) Error(args ...any) { r.failure = fmt.Sprint(args...) }

func TestCheckNoMountsLeftNamesAMountThatATestLeft(t *testing.T) {
	RequirePrivate(t)
	dir := t.TempDir()
	r := &recorder{TB: t}
	CheckNoMountsLeft(r)
	require.NoError(t, unix.Mount("none", dir, "tmpfs", 0, ""))
	r.cleanup()
	require.NoError(t, unix.Unmount(dir, 0))
	assert.Equal(t, fmt.Sprintf("still mounted: [%q]", dir), r.failure)
}

func TestCheckNoMountsLeftTellsAMountFromTheOneBelowIt(t *testing.T) {
	RequirePrivate(t)
	dir := t.TempDir()
	require.NoError(t, unix.Mount("below", dir, "tmpfs", 0, ""))
	r := &recorder{TB: t}
	CheckNoMountsLeft(r)
	require.NoError(t, unix.Mount("above", dir, "tmpfs", 0, ""))
	r.cleanup()
	require.NoError(t, unix.Unmount(dir, 0))
	require.NoError(t, unix.Unmount(dir, 0))
	assert.Equal(t, fmt.Sprintf("still mounted: [%q]", dir), r.failure)
}

func TestCheckNoMountsLeftIsSilentOnATestThatCleansUp(t *testing.T) {
	RequirePrivate(t)
	dir := t.TempDir()
	r := &recorder{TB: t}
	CheckNoMountsLeft(r)
	require.NoError(t, unix.Mount("none", dir, "tmpfs", 0, ""))
	require.NoError(t, unix.Unmount(dir, 0))
	r.cleanup()
	assert.Empty(t, r.failure)
}
