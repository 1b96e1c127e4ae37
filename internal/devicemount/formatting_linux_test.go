// SPDX-License-Identifier: Apache-2.0

package devicemount

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/filesystem"
	"github.com/volumekit/volumekit/internal/loopdev"
	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/internal/record"
	"github.com/volumekit/volumekit/volume"
)

const (
	ours   = "6a1c3c1e-3b54-4b3f-8f61-0d0d1ba1e6a5"
	others = "7b2d4d2f-4c65-4c40-9072-1e1e2cb2f7b6"
)

// fixture is a device of a file, for the time of the test.
func fixture(t *testing.T) (d Device, host volume.Host, image string) {
	t.Helper()
	mountns.RequirePrivate(t)
	dir := t.TempDir()
	image = filepath.Join(dir, "image")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 320<<20))
	h, err := loopdev.Attach(t.Context(), image, loopdev.Options{})
	require.NoError(t, err)
	require.NoError(t, h.Close())
	t.Cleanup(func() { assert.NoError(t, loopdev.Detach(t.Context(), h.Device)) })
	info, err := os.Lstat(image)
	require.NoError(t, err)
	host, err = volume.Host{Root: filepath.Join(dir, "root")}.Complete()
	require.NoError(t, err)
	d = Device{Path: h.Path, Name: image, Identity: IdentityOf(info), FSType: "xfs", Field: "fsType",
		Formatting: FormattingRecord{Path: filepath.Join(host.Root, "formatting", "pv-1.json"), Root: host.Root}}
	return d, host, image
}

// killMkfs leaves what mkfs.xfs does when it is killed.
func killMkfs(t *testing.T, d Device) {
	t.Helper()
	out, err := exec.Command("mkfs.xfs", "-q", "-f", "-m", "uuid="+ours, d.Path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	f, err := os.OpenFile(d.Path, os.O_WRONLY, 0)
	require.NoError(t, err)
	const inProgress = 126
	_, err = f.WriteAt([]byte{1}, inProgress)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

func (d Device) begin(t *testing.T, boot, id string) {
	t.Helper()
	begun := formatting{Path: d.Name, Device: d.Identity, Bytes: 320 << 20, Boot: boot, Type: "xfs", UUID: id}
	require.NoError(t, record.WriteDurably(d.Formatting.Path, formattingVersion, begun))
}

func TestWhatAnInterruptedMkfsLeftIsFormattedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		recorded string
		boot     string
		made     bool
	}{
		"it was recorded":               {recorded: ours, boot: bootID(), made: true},
		"another one was recorded":      {recorded: others, boot: bootID()},
		"it was recorded before a boot": {recorded: ours, boot: "another"},
		"nothing was recorded":          {},
	} {
		t.Run(name, func(t *testing.T) {
			d, host, _ := fixture(t)
			killMkfs(t, d)
			if test.recorded != "" {
				d.begin(t, test.boot, test.recorded)
			}
			fsType, err := d.Prepare(t.Context(), host)
			if !test.made {
				require.ErrorIs(t, err, volume.ErrInvalid)
				assert.ErrorContains(t, err, "unfinished xfs")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, "xfs", fsType)
			content, err := filesystem.Probe(t.Context(), d.Path)
			require.NoError(t, err)
			assert.Equal(t, ours, content.UUID)
			assert.NoDirExists(t, filepath.Dir(d.Formatting.Path))
		})
	}
}

func TestARecordOfFormattingStaysWhileWhatAKilledMkfsLeftIsThere(t *testing.T) {
	d, host, image := fixture(t)
	d.begin(t, bootID(), ours)
	require.NoError(t, d.Formatting.Settle(t.Context()))
	assert.NoFileExists(t, d.Formatting.Path, "the device is blank still")

	killMkfs(t, d)
	d.begin(t, bootID(), ours)
	require.NoError(t, d.Formatting.Settle(t.Context()))
	_, err := d.Prepare(t.Context(), host)
	require.NoError(t, err, "the pod for which mkfs was begun has gone, and another one comes")

	d.begin(t, bootID(), ours)
	require.NoError(t, os.Remove(image))
	require.NoError(t, d.Formatting.Settle(t.Context()))
	assert.NoDirExists(t, filepath.Dir(d.Formatting.Path))
}

func TestADeviceOfWhichItIsSaidIsNeverFormatted(t *testing.T) {
	d, host, _ := fixture(t)
	d.NeverFormat = "it holds what cannot be had again"
	_, err := d.Prepare(t.Context(), host)
	require.ErrorIs(t, err, volume.ErrInvalid)
	assert.ErrorContains(t, err, d.NeverFormat)
	content, err := filesystem.Probe(t.Context(), d.Path)
	require.NoError(t, err)
	assert.True(t, content.Blank)
	assert.NoDirExists(t, filepath.Dir(d.Formatting.Path))
}
