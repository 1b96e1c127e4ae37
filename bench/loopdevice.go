// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/kubernetes/pkg/volume/util/volumepathhandler"

	"github.com/volumekit/volumekit/internal/loopdev"
)

// loopDeviceJobs attach a file to a loop device and detach it again.
func loopDeviceJobs() []job {
	return []job{{
		tag:    "block",
		name:   "loop device, attach and detach",
		target: "20x",
		peer:   peerLoopDevice,
		ours:   ourLoopDevice,
	}}
}

func peerLoopDevice(b *testing.B) {
	path, handler := newImage(b), volumepathhandler.NewBlockVolumePathHandler()
	b.Cleanup(func() { detachAll(b, path) })
	for b.Loop() {
		if _, err := handler.AttachFileDevice(path); err != nil {
			b.Fatal(err)
		}
		if err := handler.DetachFileDevice(path); err != nil {
			b.Fatal(err)
		}
	}
}

func ourLoopDevice(b *testing.B) {
	path := newImage(b)
	b.Cleanup(func() { detachAll(b, path) })
	for b.Loop() {
		handle, err := loopdev.Attach(b.Context(), path, loopdev.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := handle.Close(); err != nil {
			b.Fatal(err)
		}
		if err := loopdev.Detach(b.Context(), handle.Device); err != nil {
			b.Fatal(err)
		}
	}
}

// newImage makes a file of 1 MiB without blocks.
func newImage(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "image")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.Truncate(path, 1<<20); err != nil {
		tb.Fatal(err)
	}
	return path
}

// detachAll detaches what a measurement that failed has left.
func detachAll(tb testing.TB, path string) {
	tb.Helper()
	id, err := loopdev.FileIDOf(path)
	if err != nil {
		tb.Error(err)
		return
	}
	devices, err := loopdev.Find(context.WithoutCancel(tb.Context()), id)
	if err != nil {
		tb.Error(err)
	}
	for _, device := range devices {
		if err := loopdev.Detach(tb.Context(), device); err != nil {
			tb.Error(err)
		}
	}
}
