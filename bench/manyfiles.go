// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// A volume of 200,000 files in 200 directories.
const (
	manyDirectories = 200
	manyFilesEach   = 1_000
)

// manyFilesMount is where their file system is mounted. It is there on every system, and in the mount namespace of the program
// it is the program's; a directory made for this could not be removed at the end.
const manyFilesMount = "/mnt"

// manyFiles is a volume of many files on an ext4 of its own, which is made when it is first asked for and goes with the
// program: the mount goes with the mount namespace, the loop device with the mount, and the image has no name.
type manyFiles struct {
	once sync.Once
	path string
	err  error
}

// directory returns the volume, whose files belong to root's group and are not for it to write.
func (m *manyFiles) directory(tb testing.TB) string {
	tb.Helper()
	m.once.Do(func() { m.path, m.err = makeManyFiles() })
	if m.err != nil {
		tb.Fatal(m.err)
	}
	return m.path
}

func makeManyFiles() (path string, err error) {
	image, err := os.CreateTemp("", "bench")
	if err != nil {
		return "", err
	}
	defer image.Close()
	defer os.Remove(image.Name())
	if err := image.Truncate(2 << 30); err != nil {
		return "", err
	}
	for _, args := range [][]string{
		{"mkfs.ext4", "-q", "-N", "400000", "-E", "lazy_itable_init=0,lazy_journal_init=0", image.Name()},
		{"mount", "-o", "loop", image.Name(), manyFilesMount},
	} {
		if output, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w: %s", args[0], err, output)
		}
	}
	volume := filepath.Join(manyFilesMount, "volume")
	for i := range manyDirectories {
		sub := filepath.Join(volume, fmt.Sprintf("directory-%d", i))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return "", err
		}
		for j := range manyFilesEach {
			if err := unix.Mknod(filepath.Join(sub, fmt.Sprintf("file-%d", j)), unix.S_IFREG|0o644, 0); err != nil {
				return "", err
			}
		}
	}
	return volume, nil
}
