// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	kvolume "k8s.io/kubernetes/pkg/volume"

	"github.com/volumekit/volumekit/internal/ownership"
)

// benchGroup is the fsGroup of the benchmarks.
const benchGroup = 4321

// ownershipJobs give a volume to a group. The first time everything is changed, its group and its permissions; what undoes
// that is not counted.
func ownershipJobs(volume *manyFiles) []job {
	return []job{
		{
			tag:    "pods",
			name:   "fsGroup, 200,000 files on ext4, first time",
			target: "2.3x",
			peer:   firstTime(volume, peerOwnership),
			ours:   firstTime(volume, ourOwnership),
		},
		{
			tag:    "pods",
			name:   "fsGroup again, nothing to change",
			target: "7x",
			peer:   again(volume, peerOwnership),
			ours:   again(volume, ourOwnership),
		},
	}
}

func firstTime(volume *manyFiles, apply func(testing.TB, string)) func(*testing.B) {
	return func(b *testing.B) {
		path := volume.directory(b)
		for b.Loop() {
			b.StopTimer()
			takeBack(b, path)
			b.StartTimer()
			apply(b, path)
		}
	}
}

func again(volume *manyFiles, apply func(testing.TB, string)) func(*testing.B) {
	return func(b *testing.B) {
		path := volume.directory(b)
		ourOwnership(b, path)
		unix.Sync()
		for b.Loop() {
			apply(b, path)
		}
	}
}

func peerOwnership(tb testing.TB, path string) {
	tb.Helper()
	changer := kvolume.NewVolumeOwnership(writableMounter{}, path, new(int64(benchGroup)), nil, nil)
	if err := changer.ChangePermissions(); err != nil {
		tb.Fatal(err)
	}
}

func ourOwnership(tb testing.TB, path string) {
	tb.Helper()
	if _, err := ownership.Apply(tb.Context(), path, ownership.Options{Group: benchGroup}); err != nil {
		tb.Fatal(err)
	}
}

// writableMounter is of a mounter what the peer asks for when it changes ownership.
type writableMounter struct {
	kvolume.Mounter
	readOnly bool
}

func (m writableMounter) GetAttributes() kvolume.Attributes {
	return kvolume.Attributes{ReadOnly: m.readOnly}
}

// takeBack makes everything as it was, and waits until the disk has it.
func takeBack(tb testing.TB, path string) {
	tb.Helper()
	err := filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if entry.IsDir() {
			mode = 0o755
		}
		if err := os.Lchown(path, 0, 0); err != nil {
			return err
		}
		return os.Chmod(path, mode)
	})
	if err != nil {
		tb.Fatal(err)
	}
	unix.Sync()
}
