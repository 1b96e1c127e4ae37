// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	kvolume "k8s.io/kubernetes/pkg/volume"
	khostpath "k8s.io/kubernetes/pkg/volume/hostpath"

	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/volume"
)

func TestSameAnswerTypeOfHostPath(t *testing.T) {
	types := []v1.HostPathType{
		v1.HostPathUnset, v1.HostPathDirectory, v1.HostPathDirectoryOrCreate, v1.HostPathFile, v1.HostPathFileOrCreate,
		v1.HostPathSocket, v1.HostPathCharDev, v1.HostPathBlockDev, "Pipe",
	}
	// Each makes something in a directory and returns the path that the hostPath has.
	things := map[string]func(t *testing.T, dir string) string{
		"nothing":   func(t *testing.T, dir string) string { return filepath.Join(dir, "absent") },
		"no parent": func(t *testing.T, dir string) string { return filepath.Join(dir, "absent", "child") },
		"a directory": func(t *testing.T, dir string) string {
			path := filepath.Join(dir, "dir")
			require.NoError(t, os.Mkdir(path, 0o700))
			return path
		},
		"a file": makeFile,
		"a socket": func(t *testing.T, dir string) string {
			path := filepath.Join(dir, "sock")
			listener, err := net.Listen("unix", path)
			require.NoError(t, err)
			t.Cleanup(func() { listener.Close() })
			return path
		},
		"a named pipe": func(t *testing.T, dir string) string {
			path := filepath.Join(dir, "pipe")
			require.NoError(t, unix.Mkfifo(path, 0o600))
			return path
		},
		"a character device": func(*testing.T, string) string { return os.DevNull },
		"a block device":     makeBlockDevice,
		"a link to a directory": func(t *testing.T, dir string) string {
			path := filepath.Join(dir, "link")
			require.NoError(t, os.Symlink(dir, path))
			return path
		},
		"a link to a file": func(t *testing.T, dir string) string {
			path := filepath.Join(dir, "link")
			require.NoError(t, os.Symlink(makeFile(t, dir), path))
			return path
		},
		"a link to nothing": func(t *testing.T, dir string) string {
			path := filepath.Join(dir, "link")
			require.NoError(t, os.Symlink(filepath.Join(dir, "absent"), path))
			return path
		},
		"a link to itself": func(t *testing.T, dir string) string {
			path := filepath.Join(dir, "link")
			require.NoError(t, os.Symlink(path, path))
			return path
		},
		"a parent that is a file": func(t *testing.T, dir string) string { return filepath.Join(makeFile(t, dir), "child") },
		"a step back":             func(t *testing.T, dir string) string { return dir + "/../" + filepath.Base(dir) },
		"a slash at the end":      func(t *testing.T, dir string) string { return dir + "/" },
	}
	// volumekit refuses what the peer does not: a link that leads nowhere is no directory, and nothing is made through it.
	refused := map[v1.HostPathType]map[string]bool{
		v1.HostPathDirectoryOrCreate: {"a link to nothing": true, "a link to itself": true},
		v1.HostPathFileOrCreate:      {"a link to nothing": true},
	}
	for _, kind := range types {
		for name, make := range things {
			t.Run(fmt.Sprintf("%q, %s", kind, name), func(t *testing.T) {
				theirs, ours := t.TempDir(), t.TempDir()
				theirErr := checkTheirs(t, make(t, theirs), kind)
				ourErr := checkOurs(t, make(t, ours), kind)
				if refused[kind][name] {
					assert.NoError(t, theirErr, "no longer different: take it out of refused")
					assert.Error(t, ourErr)
					return
				}
				assert.Equal(t, theirErr == nil, ourErr == nil, "k8s.io/kubernetes: %v; volumekit: %v", theirErr, ourErr)
				assert.Equal(t, contents(t, theirs), contents(t, ours), "what is there afterwards")
			})
		}
	}
}

func checkTheirs(t *testing.T, path string, kind v1.HostPathType) error {
	plugin := khostpath.ProbeVolumePlugins(kvolume.VolumeConfig{})[0]
	require.NoError(t, plugin.Init(newPeerHost(t.TempDir(), newPeerMounter())))
	mounter, err := plugin.NewMounter(kvolume.NewSpecFromVolume(hostPathVolume(path, kind)), testPod())
	if err != nil {
		return err
	}
	return mounter.SetUp(kvolume.MounterArgs{})
}

func checkOurs(t *testing.T, path string, kind v1.HostPathType) error {
	plugin := hostpath.New(hostpath.Options{})
	host, err := volume.Host{Root: t.TempDir()}.Complete()
	require.NoError(t, err)
	require.NoError(t, plugin.Init(t.Context(), host))
	mounter, err := plugin.NewMounter(volume.NewSpecFromVolume(hostPathVolume(path, kind)), testPod())
	if err != nil {
		return err
	}
	return mounter.SetUp(t.Context(), volume.SetUpOptions{})
}

func makeFile(t *testing.T, dir string) string {
	path := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	return path
}

func makeBlockDevice(t *testing.T, dir string) string {
	path := filepath.Join(dir, "block")
	// Any number will do: the device is not opened.
	if err := unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 200))); err != nil {
		t.Skip("an ordinary user cannot make a device: ", err)
	}
	return path
}

// contents returns what is below a directory, with its permissions.
func contents(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	modes := map[string]fs.FileMode{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		modes[path[len(dir):]] = info.Mode()
		return nil
	})
	require.NoError(t, err)
	return modes
}
