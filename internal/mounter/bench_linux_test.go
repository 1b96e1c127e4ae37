// SPDX-License-Identifier: Apache-2.0

package mounter

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"

	"github.com/volumekit/volumekit/internal/mountns"
)

// mounters are the one here and the one of mount-utils.
var mounters = []struct {
	name string
	new  func() mount.Interface
}{
	{"volumekit", func() mount.Interface { return New() }},
	{"mount-utils", func() mount.Interface { return mount.New("") }},
}

func BenchmarkMountAndUnmount(b *testing.B) {
	mountns.RequirePrivate(b)
	for _, others := range []int{0, 1000, 10_000} {
		b.Run(fmt.Sprintf("mounts=%d", others), func(b *testing.B) {
			mountMany(b, others)
			source := b.TempDir()
			for _, kind := range []struct {
				name, source, fstype string
				options              []string
			}{
				{"bind", source, "", []string{"bind"}},
				{"bind read-only", source, "", []string{"bind", "ro"}},
				{"tmpfs", "tmpfs", "tmpfs", []string{"size=1M"}},
			} {
				for _, mounter := range mounters {
					b.Run(kind.name+"/"+mounter.name, func(b *testing.B) {
						m, target := mounter.new(), b.TempDir()
						b.ReportAllocs()
						for b.Loop() {
							require.NoError(b, m.Mount(kind.source, target, kind.fstype, kind.options))
							require.NoError(b, m.Unmount(target))
						}
					})
				}
			}
		})
	}
}

func BenchmarkIsMountPoint(b *testing.B) {
	mountns.RequirePrivate(b)
	for _, others := range []int{0, 10_000} {
		b.Run(fmt.Sprintf("mounts=%d", others), func(b *testing.B) {
			mountMany(b, others)
			plain, mounted := b.TempDir(), b.TempDir()
			require.NoError(b, New().Mount(plain, mounted, "", []string{"bind"}))
			b.Cleanup(func() { require.NoError(b, New().Unmount(mounted)) })
			for path, want := range map[string]bool{plain: false, mounted: true} {
				for _, mounter := range mounters {
					b.Run(fmt.Sprintf("%t/%s", want, mounter.name), func(b *testing.B) {
						m := mounter.new()
						b.ReportAllocs()
						for b.Loop() {
							got, err := m.IsMountPoint(path)
							if err != nil || got != want {
								b.Fatal(got, err)
							}
						}
					})
				}
			}
		})
	}
}

// mountMany makes so many mounts, until the benchmark ends.
func mountMany(b *testing.B, count int) {
	dir := b.TempDir()
	require.NoError(b, New().Mount("", dir, "tmpfs", nil))
	b.Cleanup(func() { require.NoError(b, unix.Unmount(dir, unix.MNT_DETACH)) }) // with all that is on it
	for i := range count {
		target := filepath.Join(dir, fmt.Sprint(i))
		require.NoError(b, os.Mkdir(target, 0o755))
		require.NoError(b, New().Mount("/", target, "", []string{"bind"}))
	}
}
