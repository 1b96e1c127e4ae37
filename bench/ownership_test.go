// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	kvolume "k8s.io/kubernetes/pkg/volume"

	"github.com/volumekit/volumekit/internal/ownership"
)

func TestSameAnswerOwnership(t *testing.T) {
	if !everyGroupIsMapped(t) {
		t.Skip("needs root: an ordinary user cannot give files to any group")
	}
	always, onRootMismatch := v1.FSGroupChangeAlways, v1.FSGroupChangeOnRootMismatch
	for seed := range uint64(20) {
		for _, policy := range []*v1.PodFSGroupChangePolicy{nil, &always, &onRootMismatch} {
			for _, readOnly := range []bool{false, true} {
				name := fmt.Sprintf("tree %d, policy %s, read-only %v", seed, show("%s", policy), readOnly)
				t.Run(name, func(t *testing.T) {
					theirs, ours := filepath.Join(t.TempDir(), "volume"), filepath.Join(t.TempDir(), "volume")
					makeTree(t, theirs, seed)
					makeTree(t, ours, seed)
					require.Equal(t, ownerships(t, theirs), ownerships(t, ours))
					random := rand.New(rand.NewPCG(seed, 2))
					for range 4 {
						group := int64(1000 + random.IntN(2))
						theirErr := kvolume.NewVolumeOwnership(writableMounter{readOnly: readOnly}, theirs, &group, policy, nil).ChangePermissions()
						_, ourErr := ownership.Apply(t.Context(), ours, ownership.Options{
							Group: group, ReadOnly: readOnly, OnRootMismatch: policy == &onRootMismatch,
						})
						require.NoError(t, theirErr)
						require.NoError(t, ourErr)
						assert.Equal(t, ownerships(t, theirs), ownerships(t, ours))
						if random.IntN(2) == 0 { // a container changes the root
							mode := []uint32{0o755, 0o770, 0o2750, 0o2777, 0o2570, 0o2550}[random.IntN(6)]
							require.NoError(t, unix.Chmod(theirs, mode))
							require.NoError(t, unix.Chmod(ours, mode))
						}
					}
				})
			}
		}
	}
}

// makeTree makes the tree of that seed.
func makeTree(t *testing.T, path string, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	dirs, files := []string{path}, []string{}
	require.NoError(t, os.Mkdir(path, 0o755))
	type entry struct {
		path string
		mode uint32
	}
	entries := []entry{{path, 0o755}}
	for i := range 60 {
		at := filepath.Join(dirs[random.IntN(len(dirs))], fmt.Sprintf("%d\n\xff", i))
		mode := uint32(random.IntN(0o10000))
		if random.IntN(2) == 0 {
			mode &= 0o777
		}
		switch random.IntN(7) {
		case 0, 1:
			require.NoError(t, os.Mkdir(at, 0o700))
			dirs = append(dirs, at)
		case 2:
			require.NoError(t, os.Symlink([]string{"absent", ".", "..", "/", path}[random.IntN(5)], at))
			require.NoError(t, os.Lchown(at, random.IntN(3), 1000+random.IntN(3)))
			continue
		case 3:
			require.NoError(t, unix.Mknod(at, []uint32{unix.S_IFIFO, unix.S_IFSOCK}[random.IntN(2)]|0o600, 0))
		case 4:
			if len(files) > 0 {
				require.NoError(t, os.Link(files[random.IntN(len(files))], at))
				continue
			}
			fallthrough
		default:
			require.NoError(t, os.WriteFile(at, nil, 0o600))
			files = append(files, at)
		}
		entries = append(entries, entry{at, mode})
	}
	for _, e := range entries { // the group first: it takes bits away
		require.NoError(t, os.Lchown(e.path, random.IntN(3), 1000+random.IntN(3)))
		require.NoError(t, unix.Chmod(e.path, e.mode))
	}
}

type ownershipOf struct{ uid, gid, mode uint32 }

func ownerships(t *testing.T, path string) map[string]ownershipOf {
	t.Helper()
	all := map[string]ownershipOf{}
	require.NoError(t, filepath.WalkDir(path, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		require.NoError(t, unix.Lstat(p, &st))
		all[p[len(path):]] = ownershipOf{st.Uid, st.Gid, st.Mode}
		return nil
	}))
	return all
}
