// SPDX-License-Identifier: Apache-2.0

package mounter

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/mount-utils"

	"github.com/volumekit/volumekit/internal/mountns"
)

func TestListIsWhatProcMountsHolds(t *testing.T) {
	m := begin(t)
	dir := mountTmpfs(t, m, "size=1M", "noexec", "sync")
	bound := t.TempDir()
	require.NoError(t, m.Mount(dir, bound, "", []string{"bind", "ro"}))
	unmountAtEnd(t, m, bound)

	got, err := m.List()
	require.NoError(t, err)
	want, err := mount.ListProcMounts("/proc/self/mounts")
	require.NoError(t, err)
	require.Len(t, got, len(want))
	for i := range want {
		assert.ElementsMatch(t, want[i].Opts, got[i].Opts, want[i].Path)
		want[i].Opts, got[i].Opts = nil, nil
	}
	assert.Equal(t, want, got)
}

func TestListHasPathsAsTheyAre(t *testing.T) {
	m := begin(t)
	dir := filepath.Join(t.TempDir(), "with space\tand tab")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, m.Mount("a source", dir, "tmpfs", nil))
	unmountAtEnd(t, m, dir)
	points, err := m.List()
	require.NoError(t, err)
	assert.Equal(t, dir, points[len(points)-1].Path)
	assert.Equal(t, "a source", points[len(points)-1].Device)
}

func TestGetMountRefs(t *testing.T) {
	m := begin(t)
	tmpfs := mountTmpfs(t, m)
	inside := filepath.Join(tmpfs, "directory", "inside")
	require.NoError(t, os.MkdirAll(inside, 0o755))
	bind := func(source string) string {
		target := t.TempDir()
		require.NoError(t, m.Mount(source, target, "", []string{"bind"}))
		unmountAtEnd(t, m, target)
		return target
	}
	whole, part := bind(tmpfs), bind(inside)
	partAgain := bind(part)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(inside, link))
	lonely := mountTmpfs(t, m) // another file system with the same source and root

	for name, test := range map[string]struct {
		path string
		want []string
	}{
		"a mount":                      {tmpfs, []string{whole}},
		"a bind mount":                 {whole, []string{tmpfs}},
		"a directory that is bound":    {inside, []string{part, partAgain}},
		"a bind mount of it":           {part, []string{partAgain}},
		"a directory in another mount": {filepath.Join(whole, "directory", "inside"), []string{part, partAgain}},
		"a directory that is not":      {filepath.Dir(inside), nil},
		"a symbolic link":              {link, []string{part, partAgain}},
		"a file system of one mount":   {lonely, nil},
		"what does not exist":          {filepath.Join(tmpfs, "absent"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := m.GetMountRefs(test.path)
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
			theirs, err := mount.New("").GetMountRefs(test.path)
			require.NoError(t, err)
			assert.ElementsMatch(t, theirs, got, "mount-utils finds others")
		})
	}
}

func TestGetMountRefsLooksAtTheMountThatIsSeen(t *testing.T) {
	m := begin(t)
	below := mountTmpfs(t, m)
	bound := t.TempDir()
	require.NoError(t, m.Mount(below, bound, "", []string{"bind"}))
	unmountAtEnd(t, m, bound)
	require.NoError(t, m.Mount("above", below, "tmpfs", nil))
	unmountAtEnd(t, m, below)
	refs, err := m.GetMountRefs(below)
	require.NoError(t, err)
	assert.Empty(t, refs)
}

func TestGetMountRefsDoesNotAskADeadServer(t *testing.T) {
	m := begin(t)
	dir, bound := t.TempDir(), t.TempDir()
	mountns.DeadFUSE(t, dir)
	require.NoError(t, m.Mount(dir, bound, "", []string{"bind", "ro"})) // does not ask it either
	t.Cleanup(func() { require.NoError(t, m.Unmount(bound)) })
	refs, err := m.GetMountRefs(dir)
	require.NoError(t, err)
	assert.Equal(t, []string{bound}, refs)
}
