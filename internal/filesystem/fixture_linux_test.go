// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mountns"
)

const (
	mebi = 1 << 20
	// roomy is enough for each type: mkfs.xfs wants 300 MiB, and the kernel resizes a btrfs to no less than 256 MiB.
	roomy = 512 * mebi
)

// image returns a new sparse file of the size.
func image(t testing.TB, size int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, size))
	return path
}

// run runs a program that the test needs, or skips the test.
func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/" + name); err != nil {
			t.Skipf("needs %s: %v", name, err)
		}
	}
	output, err := exec.Command(path, args...).CombinedOutput()
	require.NoError(t, err, "%s %q: %s", name, args, output)
	return strings.TrimSpace(string(output))
}

// loop attaches a loop device to the image until the end of the test.
func loop(t testing.TB, image string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to attach a loop device")
	}
	device := run(t, "losetup", "--find", "--show", image)
	t.Cleanup(func() { run(t, "losetup", "--detach", device) })
	return device
}

// mounted mounts the device until the end of the test, and returns where.
func mounted(t testing.TB, device, fsType string) string {
	t.Helper()
	mountns.RequirePrivate(t)
	dir := t.TempDir()
	require.NoError(t, unix.Mount(device, dir, fsType, 0, ""))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	return dir
}

// write writes the data at the offset.
func write(t testing.TB, path, data string, offset int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte(data), offset)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// wiped zeroes the beginning of the file.
func wiped(t testing.TB, path string, n int) {
	t.Helper()
	write(t, path, strings.Repeat("\x00", n), 0)
}

func probed(t testing.TB, path string) Content {
	t.Helper()
	content, err := Probe(t.Context(), path)
	require.NoError(t, err)
	return content
}
