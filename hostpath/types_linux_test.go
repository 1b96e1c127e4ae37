// SPDX-License-Identifier: Apache-2.0

package hostpath_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/volume"
)

// things can be at a path, by the name that an error gives them.
var things = map[string]func(t *testing.T, path string){
	"directory":        func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) },
	"regular file":     func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, []byte("kept"), 0o600)) },
	"socket":           makeSocket,
	"named pipe":       func(t *testing.T, path string) { require.NoError(t, unix.Mkfifo(path, 0o600)) },
	"character device": func(t *testing.T, path string) { makeDevice(t, path, unix.S_IFCHR, unix.Mkdev(1, 3)) },
	"block device":     func(t *testing.T, path string) { makeDevice(t, path, unix.S_IFBLK, unix.Mkdev(7, 0)) },
}

// wants are the things that the types ask for.
var wants = map[v1.HostPathType]string{
	v1.HostPathDirectory:         "directory",
	v1.HostPathDirectoryOrCreate: "directory",
	v1.HostPathFile:              "regular file",
	v1.HostPathFileOrCreate:      "regular file",
	v1.HostPathSocket:            "socket",
	v1.HostPathCharDev:           "character device",
	v1.HostPathBlockDev:          "block device",
}

var creates = map[v1.HostPathType]bool{v1.HostPathDirectoryOrCreate: true, v1.HostPathFileOrCreate: true}

func TestEachTypeAcceptsOnlyItsThing(t *testing.T) {
	plugin := start(t, hostpath.Options{})
	allowing := start(t, hostpath.Options{AllowedPaths: []hostpath.AllowedPath{{Prefix: "/"}}})
	for thing, makeThing := range things {
		t.Run(thing, func(t *testing.T) {
			dir := t.TempDir()
			direct, link := filepath.Join(dir, "direct"), filepath.Join(dir, "link")
			makeThing(t, direct)
			require.NoError(t, os.Symlink("direct", link))
			before := describe(t, direct)
			for kind, want := range wants {
				for _, path := range []string{direct, link} {
					for name, p := range map[string]*hostpath.Plugin{"": plugin, " with an allow-list": allowing} {
						err := setUp(t, p, path, kind)
						if thing == want {
							assert.NoError(t, err, "%s as %s%s", path, kind, name)
							assert.Equal(t, volume.Present, presence(t, p, path, kind))
							continue
						}
						var typeErr *hostpath.TypeError
						if assert.ErrorAs(t, err, &typeErr, "%s as %s%s", path, kind, name) {
							assert.Equal(t, hostpath.TypeError{Path: path, Want: kind, Found: thing}, *typeErr)
							assert.ErrorIs(t, err, volume.ErrInvalid)
							assert.ErrorContains(t, err, "is a "+thing)
						}
						assert.Equal(t, volume.Absent, presence(t, p, path, kind))
					}
				}
			}
			assert.Equal(t, before, describe(t, direct), "what was there has changed")
		})
	}
}

func TestWhatIsAbsentIsNotFound(t *testing.T) {
	for kind := range wants {
		t.Run(string(kind), func(t *testing.T) {
			for name, options := range map[string]hostpath.Options{
				"":                    {},
				" with an allow-list": {AllowedPaths: []hostpath.AllowedPath{{Prefix: "/"}}},
			} {
				plugin, dir := start(t, options), t.TempDir()
				path := filepath.Join(dir, "absent")
				assert.Equal(t, volume.Absent, presence(t, plugin, path, kind))
				assert.NoFileExists(t, path, "Presence creates nothing")
				if creates[kind] {
					continue
				}
				err := setUp(t, plugin, path, kind)
				require.ErrorIs(t, err, fs.ErrNotExist, name)
				assert.ErrorIs(t, err, volume.ErrNotFound)
				assert.NotErrorIs(t, err, volume.ErrInvalid)
				assert.ErrorContains(t, err, `"`+path+`" does not exist`)

				err = setUp(t, plugin, filepath.Join(dir, "missing", "x", "y"), kind)
				require.ErrorIs(t, err, fs.ErrNotExist, name)
				assert.ErrorContains(t, err, `"`+filepath.Join(dir, "missing")+`" does not exist`, "the first one that is missing")
			}
		})
	}
}

func TestALinkThatLeadsNowhereIsNamedWithItsTarget(t *testing.T) {
	for kind := range wants {
		t.Run(string(kind), func(t *testing.T) {
			for name, options := range map[string]hostpath.Options{
				"":                    {},
				" with an allow-list": {AllowedPaths: []hostpath.AllowedPath{{Prefix: "/"}}},
			} {
				plugin, dir := start(t, options), t.TempDir()
				link := filepath.Join(dir, "link")
				require.NoError(t, os.Symlink("nowhere", link))
				for _, path := range []string{link, filepath.Join(link, "x")} {
					err := setUp(t, plugin, path, kind)
					require.ErrorIs(t, err, fs.ErrNotExist, path+name)
					assert.ErrorIs(t, err, volume.ErrNotFound)
					assert.ErrorContains(t, err, `"`+link+`" is a symbolic link to "nowhere"`)
					assert.NoFileExists(t, filepath.Join(dir, "nowhere"), "nothing is created through it")
					assert.Equal(t, volume.Absent, presence(t, plugin, path, kind))
				}
			}
		})
	}
}

func TestAParentThatIsAFileIsNamed(t *testing.T) {
	for kind := range wants {
		t.Run(string(kind), func(t *testing.T) {
			for name, options := range map[string]hostpath.Options{
				"":                    {},
				" with an allow-list": {AllowedPaths: []hostpath.AllowedPath{{Prefix: "/"}}},
			} {
				plugin, dir := start(t, options), t.TempDir()
				file := filepath.Join(dir, "file")
				require.NoError(t, os.WriteFile(file, nil, 0o600))
				require.NoError(t, os.Symlink(file, filepath.Join(dir, "link")))
				for _, path := range []string{filepath.Join(file, "x", "y"), filepath.Join(dir, "link", "x")} {
					err := setUp(t, plugin, path, kind)
					require.ErrorIs(t, err, syscall.ENOTDIR, path+name)
					assert.ErrorIs(t, err, volume.ErrInvalid)
					assert.NotErrorIs(t, err, fs.ErrNotExist)
					assert.False(t, errors.As(err, new(*hostpath.TypeError)))
					assert.ErrorContains(t, err, `"`+file+`" is a regular file`)
					assert.Equal(t, volume.Absent, presence(t, plugin, path, kind))
				}
			}
		})
	}
}

func TestLinksInACircleAreNamed(t *testing.T) {
	plugin, dir := start(t, hostpath.Options{}), t.TempDir()
	require.NoError(t, os.Symlink("b", filepath.Join(dir, "a")))
	require.NoError(t, os.Symlink("a", filepath.Join(dir, "b")))
	err := setUp(t, plugin, filepath.Join(dir, "a"), v1.HostPathDirectoryOrCreate)
	require.ErrorIs(t, err, volume.ErrInvalid)
	assert.ErrorIs(t, err, syscall.ELOOP)
}

func TestWithoutATypeAnythingGoes(t *testing.T) {
	plugin := start(t, hostpath.Options{})
	for _, kind := range []v1.HostPathType{"", "none"} {
		path := filepath.Join(t.TempDir(), "absent")
		assert.NoError(t, setUp(t, plugin, path, kind))
		assert.Equal(t, volume.Present, presence(t, plugin, path, kind))
		assert.NoFileExists(t, path)
	}
}

func makeSocket(t *testing.T, path string) {
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
}

func makeDevice(t *testing.T, path string, kind uint32, device uint64) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, who can make devices")
	}
	require.NoError(t, unix.Mknod(path, kind|0o600, int(device)))
}

// owned is what nobody may change of what exists.
type owned struct {
	mode     uint32
	uid, gid uint32
	inode    uint64
	modified unix.Timespec
}

func describe(t *testing.T, path string) owned {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Lstat(path, &st))
	return owned{st.Mode, st.Uid, st.Gid, st.Ino, st.Mtim}
}
