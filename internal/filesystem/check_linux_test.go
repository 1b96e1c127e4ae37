// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/program"
)

func TestACleanFileSystemPassesTheCheck(t *testing.T) {
	for _, fsType := range append([]string{"ext2", "ext3"}, types...) {
		path := image(t, roomy)
		require.NoError(t, Make(t.Context(), nil, path, MakeOptions{Type: fsType}))
		result, err := Check(t.Context(), nil, path, fsType)
		require.NoError(t, err)
		assert.False(t, result.Repaired)
		assert.NotEmpty(t, result.Output)
	}
}

func TestWhatCanBeRepairedIsRepaired(t *testing.T) {
	path := image(t, 64*mebi)
	run(t, "mkfs.ext4", "-q", path)
	run(t, "debugfs", "-w", "-R", "set_super_value free_blocks_count 7", path)
	run(t, "debugfs", "-w", "-R", "set_super_value state 0", path) // was not unmounted
	result, err := Check(t.Context(), nil, path, "ext4")
	require.NoError(t, err)
	assert.True(t, result.Repaired)
	result, err = Check(t.Context(), nil, path, "ext4")
	require.NoError(t, err)
	assert.False(t, result.Repaired)
}

func TestTheJournalIsReplayed(t *testing.T) {
	path := image(t, 64*mebi)
	device := loop(t, path)
	require.NoError(t, Make(t.Context(), nil, device, MakeOptions{Type: "ext4"}))
	dir := mounted(t, device, "ext4")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kept"), []byte("kept"), 0o600))
	run(t, "sync", "-f", dir)
	crashed := image(t, 0)
	run(t, "cp", device, crashed) // as a power cut leaves it

	require.Equal(t, "ext4", probed(t, crashed).Type)
	result, err := Check(t.Context(), nil, crashed, "ext4")
	require.NoError(t, err)
	assert.Contains(t, result.Output, "recovering journal")
	data, err := os.ReadFile(filepath.Join(mounted(t, loop(t, crashed), "ext4"), "kept"))
	require.NoError(t, err)
	assert.Equal(t, "kept", string(data))
}

func TestWhatAPersonHasToLookAtIsLeftAlone(t *testing.T) {
	path := image(t, 64*mebi)
	run(t, "mkfs.ext4", "-q", "-O", "^metadata_csum", path)
	run(t, "debugfs", "-w", "-R", "clri <2>", path) // the root directory
	run(t, "debugfs", "-w", "-R", "set_super_value state 0", path)
	_, err := Check(t.Context(), nil, path, "ext4")
	assert.ErrorIs(t, err, ErrNeedsRepair)
	assert.ErrorContains(t, err, "RUN fsck MANUALLY")
}

func TestAMountedDeviceIsNotChecked(t *testing.T) {
	device := loop(t, image(t, 64*mebi))
	require.NoError(t, Make(t.Context(), nil, device, MakeOptions{Type: "ext4"}))
	mounted(t, device, "ext4")
	_, err := Check(t.Context(), nil, device, "ext4")
	assert.ErrorIs(t, err, ErrInUse)
}

func TestTheExitCodesOfE2fsckAreToldApart(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	path := image(t, mebi)
	for code, want := range map[int]struct {
		repaired bool
		kind     error
		text     string
	}{
		0:   {},
		1:   {repaired: true},
		2:   {repaired: true},
		3:   {repaired: true},
		4:   {kind: ErrNeedsRepair, text: "somebody has to look at"},
		5:   {kind: ErrNeedsRepair, text: "somebody has to look at"},
		12:  {kind: ErrNeedsRepair, text: "somebody has to look at"},
		8:   {text: "could not do its work"},
		16:  {text: "does not know its arguments"},
		32:  {text: "cancelled"},
		128: {text: "shared library"},
		64:  {text: "a status that nobody knows"},
	} {
		script := fmt.Sprintf("#!/bin/sh\necho \"said $*\"\nexit %d\n", code)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "e2fsck"), []byte(script), 0o700))
		result, err := Check(t.Context(), nil, path, "ext3")
		if want.text == "" {
			require.NoError(t, err, code)
			assert.Equal(t, CheckResult{Repaired: want.repaired, Output: "said -p " + path + "\n"}, result)
			continue
		}
		assert.ErrorContains(t, err, want.text)
		assert.ErrorContains(t, err, "said -p")
		var exited *program.ExitError
		require.ErrorAs(t, err, &exited)
		assert.Equal(t, code, exited.Code)
		assert.Equal(t, want.kind == ErrNeedsRepair, strings.Contains(fmt.Sprint(err), "e2fsck "+path), code)
		if want.kind != nil {
			assert.ErrorIs(t, err, want.kind)
		} else {
			assert.NotErrorIs(t, err, ErrNeedsRepair)
		}
	}
}

func TestOtherTypesAndPathsAreNotChecked(t *testing.T) {
	for _, fsType := range []string{"", "vfat"} {
		_, err := Check(t.Context(), nil, image(t, mebi), fsType)
		assert.ErrorIs(t, err, ErrInvalid)
	}
	for _, fsType := range types {
		_, err := Check(t.Context(), nil, "-y", fsType)
		assert.ErrorIs(t, err, ErrInvalid)
	}
}
