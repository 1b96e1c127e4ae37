// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/projected"
)

// visible returns what a container sees of a volume: names, where they lead to, modes and content. The directory that is named after
// the time is called TIME.
func visible(t *testing.T, dir string) map[string]string {
	t.Helper()
	current, err := os.Readlink(filepath.Join(dir, "..data"))
	require.NoError(t, err)
	seen := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		name := strings.Replace(strings.TrimPrefix(path, dir), current, "TIME", 1)
		switch {
		case e.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			seen[name] = "-> " + strings.Replace(target, current, "TIME", 1)
			return err
		case e.IsDir():
			seen[name] = info.Mode().String()
			return nil
		}
		data, err := os.ReadFile(path)
		seen[name] = info.Mode().String() + " " + string(data)
		return err
	}))
	return seen
}

func TestBothSidesMakeTheSameFilesOfAConfigMap(t *testing.T) {
	peerDir := t.TempDir()
	peer := newPeerConfigMap(t, peerDir)
	ours, ourDir := newOurConfigMap(t, t.TempDir(), projected.Options{OnDisk: true})
	for _, value := range []string{"0", "1", "1", "0"} {
		c := manyKeys(value)
		if value == "1" {
			delete(c.Data, "key-3.conf")
			c.BinaryData = map[string][]byte{"binary": {0, 1, 0xff}}
		}
		require.NoError(t, peer(c))
		require.NoError(t, ours(c))
		assert.Equal(t, visible(t, peerDir), visible(t, ourDir))
	}
}
