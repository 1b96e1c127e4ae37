// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"

	"github.com/volumekit/volumekit/internal/mounter"
)

// crowds are the numbers of mounts that the host has already.
var crowds = []int{0, 100, 1_000, 10_000}

// mountJobs mount and unmount through the mount.Interface that both sides implement.
func mountJobs() []job {
	var js []job
	for _, kind := range []string{"bind", "tmpfs"} {
		for _, n := range crowds {
			js = append(js, job{
				tag:    "core",
				name:   fmt.Sprintf("mount and unmount (%s), %d other mounts", kind, n),
				target: "15x, flat",
				peer:   mountAndUnmount(newPeerMounter, kind, n),
				ours:   mountAndUnmount(newOurMounter, kind, n),
			})
		}
	}
	return js
}

func mountAndUnmount(newMounter func() mount.Interface, kind string, others int) func(*testing.B) {
	return func(b *testing.B) {
		crowd(b, others)
		dir := b.TempDir()
		source, target := filepath.Join(dir, "source"), filepath.Join(dir, "target")
		mkdir(b, source)
		mkdir(b, target)
		fstype, options := "tmpfs", []string{"size=1048576"}
		if kind == "bind" {
			fstype, options = "", []string{"bind"}
		}
		m := newMounter()
		for b.Loop() {
			if err := m.Mount(source, target, fstype, options); err != nil {
				b.Fatal(err)
			}
			if err := m.Unmount(target); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// mountPointJobs ask for a directory that is a mount point and for one that is not. The peer's IsMountPoint is the one of
// its two that is right for bind mounts.
func mountPointJobs() []job {
	var js []job
	for _, mounted := range []bool{true, false} {
		for _, n := range []int{0, 10_000} {
			answer := "yes"
			if !mounted {
				answer = "no"
			}
			js = append(js, job{
				tag:    "core",
				name:   fmt.Sprintf("is this a mount point? (%s), %d other mounts", answer, n),
				target: "6x, flat",
				peer:   isMountPoint(newPeerMounter, mounted, n),
				ours:   isMountPoint(newOurMounter, mounted, n),
			})
		}
	}
	return js
}

func isMountPoint(newMounter func() mount.Interface, mounted bool, others int) func(*testing.B) {
	return func(b *testing.B) {
		crowd(b, others)
		dir := b.TempDir()
		if mounted {
			mountTmpfs(b, dir)
		}
		m := newMounter()
		for b.Loop() {
			answer, err := m.IsMountPoint(dir)
			if err != nil {
				b.Fatal(err)
			}
			if answer != mounted {
				b.Fatalf("IsMountPoint(%s) = %v, want %v", dir, answer, mounted)
			}
		}
	}
}

func newOurMounter() mount.Interface {
	return mounter.New()
}

// crowd adds n mounts to the mount namespace until the measurement ends.
func crowd(b *testing.B, n int) {
	b.Helper()
	if n == 0 {
		return
	}
	root := b.TempDir()
	mountTmpfs(b, root)
	source := filepath.Join(root, "source")
	mkdir(b, source)
	for i := range n {
		target := filepath.Join(root, fmt.Sprint(i))
		mkdir(b, target)
		if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
			b.Fatalf("bind mount %d of %d (is /proc/sys/fs/mount-max too low?): %v", i, n, err)
		}
	}
}

// mountTmpfs mounts a tmpfs on dir and detaches it, with all that is mounted below, when the measurement ends.
func mountTmpfs(tb testing.TB, dir string) {
	tb.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
		tb.Fatalf("mount a tmpfs on %s: %v", dir, err)
	}
	tb.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			tb.Errorf("unmount %s: %v", dir, err)
		}
	})
}

func mkdir(tb testing.TB, dir string) {
	tb.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
}
