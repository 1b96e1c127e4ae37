// SPDX-License-Identifier: Apache-2.0

package mounter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// ways are the calls by which a mount can come about.
var ways = []struct {
	name    string
	without func() error // restricts the thread to them
}{
	{"descriptors", func() error { return nil }},
	{"mount(2), the kernel is old", refuse(unix.ENOSYS, newCalls...)},
	{"mount(2), an old filter refuses the new calls", refuse(unix.EPERM, newCalls...)},
	{"mount(2) for flags, the kernel lacks mount_setattr", refuse(unix.ENOSYS, unix.SYS_MOUNT_SETATTR)},
	{"mount(2) for flags, a filter refuses mount_setattr", refuse(unix.EPERM, unix.SYS_MOUNT_SETATTR)},
}

var newCalls = []uint32{
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR,
}

// inEveryWay runs a test for each of ways, with what does the mounting.
func inEveryWay(t *testing.T, test func(t *testing.T, m *Mounter, mount func(source, target, fstype string, options ...string) error)) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			m := begin(t)
			test(t, m, func(source, target, fstype string, options ...string) error {
				return onThread(t, way.without, func() error { return m.Mount(source, target, fstype, options) })
			})
		})
	}
}

func TestTmpfsHasItsOptions(t *testing.T) {
	inEveryWay(t, func(t *testing.T, m *Mounter, mount func(string, string, string, ...string) error) {
		dir := t.TempDir()
		require.NoError(t, mount("scratch", dir, "tmpfs", "size=1M", "mode=0750,noexec", "nosuid", "nodev", "noatime", "_netdev"))
		unmountAtEnd(t, m, dir)

		info := infoOf(t, dir)
		assert.Equal(t, "tmpfs", info.FSType)
		assert.Equal(t, "scratch", info.Source)
		assert.ElementsMatch(t, []string{"rw", "nosuid", "nodev", "noexec", "noatime"}, strings.Split(info.Options, ","))
		var stat unix.Statfs_t
		require.NoError(t, unix.Statfs(dir, &stat))
		assert.EqualValues(t, 1<<20, int64(stat.Blocks)*int64(stat.Bsize))
		directory, err := os.Stat(dir)
		require.NoError(t, err)
		assert.Equal(t, fs.FileMode(0o750), directory.Mode().Perm())
	})
}

func TestWithoutAnOptionAboutThemAccessTimesAreRelative(t *testing.T) {
	inEveryWay(t, func(t *testing.T, m *Mounter, mount func(string, string, string, ...string) error) {
		dir := t.TempDir()
		require.NoError(t, mount("", dir, "tmpfs"))
		unmountAtEnd(t, m, dir)
		assert.Equal(t, "rw,relatime", infoOf(t, dir).Options)
		assert.Equal(t, "none", infoOf(t, dir).Source)
	})
}

func TestAMountWithRoCannotBeWrittenTo(t *testing.T) {
	inEveryWay(t, func(t *testing.T, m *Mounter, mount func(string, string, string, ...string) error) {
		dir := t.TempDir()
		require.NoError(t, mount("", dir, "tmpfs", "ro", "sync"))
		unmountAtEnd(t, m, dir)
		assert.ErrorIs(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600), unix.EROFS)
		assert.Contains(t, infoOf(t, dir).Options, "ro,")
		assert.Contains(t, infoOf(t, dir).VFSOptions, "ro,sync")
	})
}

func TestBindShowsTheSourceAndLeavesOutWhatIsMountedInIt(t *testing.T) {
	inEveryWay(t, func(t *testing.T, m *Mounter, mount func(string, string, string, ...string) error) {
		source, target := treeWithAMount(t, m), t.TempDir()
		require.NoError(t, mount(source, target, "", "bind"))
		unmountAtEnd(t, m, target)
		assert.FileExists(t, filepath.Join(target, "file"))
		assert.NoFileExists(t, filepath.Join(target, "inner", "inner file"))
	})
}

func TestRbindShowsWhatIsMountedInTheSource(t *testing.T) {
	inEveryWay(t, func(t *testing.T, m *Mounter, mount func(string, string, string, ...string) error) {
		source, target := treeWithAMount(t, m), t.TempDir()
		require.NoError(t, mount(source, target, "none", "rbind", "ro"))
		unmountAtEnd(t, m, target)
		unmountAtEnd(t, m, filepath.Join(target, "inner"))
		assert.FileExists(t, filepath.Join(target, "inner", "inner file"))
		assert.ErrorIs(t, os.WriteFile(filepath.Join(target, "new"), nil, 0o600), unix.EROFS)
		assert.NoError(t, os.WriteFile(filepath.Join(target, "inner", "new"), nil, 0o600), "ro is about the one mount")
	})
}

// treeWithAMount returns a directory with a file, and a directory "inner" with a tmpfs that holds another one.
func treeWithAMount(t *testing.T, m *Mounter) string {
	dir := t.TempDir()
	inner := filepath.Join(dir, "inner")
	require.NoError(t, os.Mkdir(inner, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	require.NoError(t, m.Mount("", inner, "tmpfs", nil))
	unmountAtEnd(t, m, inner)
	require.NoError(t, os.WriteFile(filepath.Join(inner, "inner file"), nil, 0o600))
	return dir
}

func TestAFileCanBeBound(t *testing.T) {
	inEveryWay(t, func(t *testing.T, m *Mounter, mount func(string, string, string, ...string) error) {
		source, target := filepath.Join(t.TempDir(), "source"), filepath.Join(t.TempDir(), "target")
		require.NoError(t, os.WriteFile(source, []byte("text"), 0o600))
		require.NoError(t, os.WriteFile(target, nil, 0o600))
		require.NoError(t, mount(source, target, "", "bind"))
		unmountAtEnd(t, m, target)
		text, err := os.ReadFile(target)
		require.NoError(t, err)
		assert.Equal(t, "text", string(text))
	})
}

func TestABindMountKeepsWhatTheSourceForbids(t *testing.T) {
	inEveryWay(t, func(t *testing.T, m *Mounter, mount func(string, string, string, ...string) error) {
		source := mountTmpfs(t, m, "nosuid", "nodev", "noatime", "nosymfollow")
		target := t.TempDir()
		require.NoError(t, mount(source, target, "", "bind", "suid", "dev", "noexec", "rw"))
		unmountAtEnd(t, m, target)
		assert.ElementsMatch(t, []string{"rw", "nosuid", "nodev", "noexec", "noatime", "nosymfollow"}, strings.Split(infoOf(t, target).Options, ","))
		assert.NotContains(t, infoOf(t, source).Options, "noexec", "the source's mount is another one")
	})
}

func TestAReadOnlyBindMountIsReadOnlyFromTheStart(t *testing.T) {
	m := begin(t)
	source, target := t.TempDir(), t.TempDir()
	file := filepath.Join(target, "file")
	require.NoError(t, os.WriteFile(filepath.Join(source, "file"), nil, 0o600))

	// Opened for writing without O_CREAT, the file is there only through the mount.
	var rounds atomic.Int64
	done := make(chan struct{})
	wrote := make(chan bool)
	go func() {
		for {
			select {
			case <-done:
				wrote <- false
				return
			default:
			}
			f, err := os.OpenFile(file, os.O_WRONLY, 0)
			if err == nil {
				_ = f.Close()
				wrote <- true
				return
			}
			rounds.Add(1)
		}
	}()
	for range 100 {
		require.NoError(t, m.Mount(source, target, "", []string{"bind", "ro"}))
		// At least one attempt in each of the rounds.
		for seen := rounds.Load(); rounds.Load() == seen; runtime.Gosched() {
			select {
			case <-wrote:
				require.NoError(t, m.Unmount(target))
				t.Fatal("the file was opened for writing")
			default:
			}
		}
		for m.Unmount(target) != nil { // in use by the attempt
			runtime.Gosched()
		}
	}
	close(done)
	assert.False(t, <-wrote)
}

func TestNoexecGivesEACCESOnExec(t *testing.T) {
	inEveryWay(t, func(t *testing.T, m *Mounter, mount func(string, string, string, ...string) error) {
		source, target := t.TempDir(), t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(source, "true"), []byte("#!/bin/sh\n"), 0o700))
		require.NoError(t, exec.Command(filepath.Join(source, "true")).Run())
		require.NoError(t, mount(source, target, "", "bind", "noexec"))
		unmountAtEnd(t, m, target)
		assert.ErrorIs(t, exec.Command(filepath.Join(target, "true")).Run(), unix.EACCES)
	})
}

func TestHugetlbfsHasThePageSizeThatWasAskedFor(t *testing.T) {
	inEveryWay(t, func(t *testing.T, m *Mounter, mount func(string, string, string, ...string) error) {
		if _, err := os.Stat("/sys/kernel/mm/hugepages/hugepages-2048kB"); err != nil {
			t.Skip("needs huge pages of 2 MiB: ", err)
		}
		dir := t.TempDir()
		require.NoError(t, mount("nodev", dir, "hugetlbfs", "pagesize=2M"))
		unmountAtEnd(t, m, dir)
		assert.Contains(t, strings.Split(infoOf(t, dir).VFSOptions, ","), "pagesize=2M")
	})
}

func TestRemountChangesWhatIsNamedAndNothingElse(t *testing.T) {
	inEveryWay(t, func(t *testing.T, m *Mounter, mount func(string, string, string, ...string) error) {
		dir := mountTmpfs(t, m, "noexec", "nosuid", "strictatime", "nodiratime", "size=1M")
		file := filepath.Join(dir, "file")

		require.NoError(t, mount("", dir, "", "remount", "ro"))
		assert.ErrorIs(t, os.WriteFile(file, nil, 0o600), unix.EROFS)
		info := infoOf(t, dir)
		assert.ElementsMatch(t, []string{"ro", "nosuid", "noexec", "nodiratime"}, strings.Split(info.Options, ","))
		assert.Contains(t, info.VFSOptions, "ro,size=1024k")

		require.NoError(t, mount("", dir, "", "remount", "rw", "exec", "size=2M"))
		assert.NoError(t, os.WriteFile(file, nil, 0o600))
		info = infoOf(t, dir)
		assert.ElementsMatch(t, []string{"rw", "nosuid", "nodiratime"}, strings.Split(info.Options, ","))
		assert.Contains(t, info.VFSOptions, "rw,size=2048k")
	})
}

func TestARemountOfBindChangesTheMountAndNotTheFileSystem(t *testing.T) {
	inEveryWay(t, func(t *testing.T, m *Mounter, mount func(string, string, string, ...string) error) {
		source := mountTmpfs(t, m, "nodev")
		target := t.TempDir()
		require.NoError(t, m.Mount(source, target, "", []string{"bind"}))
		unmountAtEnd(t, m, target)

		require.NoError(t, mount("", target, "", "bind", "remount", "ro"))
		assert.ErrorIs(t, os.WriteFile(filepath.Join(target, "file"), nil, 0o600), unix.EROFS)
		assert.NoError(t, os.WriteFile(filepath.Join(source, "file"), nil, 0o600))
		assert.Equal(t, "ro,nodev,relatime", infoOf(t, target).Options)

		require.NoError(t, mount("", target, "", "remount,bind,rw,dev"))
		assert.NoError(t, os.WriteFile(filepath.Join(target, "file"), nil, 0o600))
		assert.Equal(t, "rw,relatime", infoOf(t, target).Options)
	})
}

func TestPropagation(t *testing.T) {
	for options, want := range map[string]struct{ alone, peer string }{
		"":              {alone: "shared:", peer: "shared:"}, // as the parent
		"shared":        {alone: "shared:", peer: "shared:"},
		"rshared":       {alone: "shared:", peer: "shared:"},
		"private":       {},
		"rprivate":      {},
		"slave":         {peer: "master:"}, // whoever is alone becomes private
		"rslave":        {peer: "master:"},
		"slave,shared":  {alone: "shared:", peer: "shared: master:"},
		"shared,rslave": {peer: "master:"},
		"unbindable":    {alone: "unbindable", peer: "unbindable"},
		"runbindable":   {alone: "unbindable", peer: "unbindable"},
	} {
		t.Run(options, func(t *testing.T) {
			inEveryWay(t, func(t *testing.T, m *Mounter, mount func(string, string, string, ...string) error) {
				// A shared parent gives its type to what is mounted on it.
				parent, source := mountTmpfs(t, m, "shared"), mountTmpfs(t, m, "shared")

				alone := filepath.Join(parent, "a new file system")
				require.NoError(t, os.Mkdir(alone, 0o755))
				require.NoError(t, mount("", alone, "tmpfs", options))
				unmountAtEnd(t, m, alone)
				assert.Equal(t, want.alone, propagationOf(t, alone))

				peer := filepath.Join(parent, "a bind mount")
				require.NoError(t, os.Mkdir(peer, 0o755))
				require.NoError(t, mount(source, peer, "", "bind", options))
				unmountAtEnd(t, m, peer)
				assert.Equal(t, want.peer, propagationOf(t, peer))
			})
		})
	}
}

// propagationOf returns the propagation type as mountinfo has it, without the numbers of groups.
func propagationOf(t *testing.T, dir string) string {
	return regexp.MustCompile(`[0-9]`).ReplaceAllString(infoOf(t, dir).Optional, "")
}

func TestPropagationOfAMountThatIsThere(t *testing.T) {
	inEveryWay(t, func(t *testing.T, m *Mounter, mount func(string, string, string, ...string) error) {
		dir := mountTmpfs(t, m)
		assert.Empty(t, propagationOf(t, dir))
		require.NoError(t, mount(dir, dir, "", "shared"))
		assert.Equal(t, "shared:", propagationOf(t, dir))
		require.NoError(t, mount("", dir, "none", "unbindable"))
		assert.Equal(t, "unbindable", propagationOf(t, dir))
	})
}

func TestRecursivePropagationReachesWhatIsMountedInside(t *testing.T) {
	inEveryWay(t, func(t *testing.T, m *Mounter, mount func(string, string, string, ...string) error) {
		outer := mountTmpfs(t, m)
		inner := filepath.Join(outer, "inner")
		require.NoError(t, os.Mkdir(inner, 0o755))
		require.NoError(t, m.Mount("", inner, "tmpfs", nil))
		unmountAtEnd(t, m, inner)

		require.NoError(t, mount("", outer, "", "shared"))
		assert.Empty(t, infoOf(t, inner).Optional)
		require.NoError(t, mount("", outer, "", "rshared"))
		assert.Contains(t, infoOf(t, inner).Optional, "shared:")
		require.NoError(t, mount("", outer, "", "rprivate"))
		assert.Empty(t, infoOf(t, inner).Optional)
	})
}

func TestAMountCoversTheOneBelow(t *testing.T) {
	m := begin(t)
	dir := mountTmpfs(t, m)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	require.NoError(t, m.Mount("", dir, "tmpfs", nil))
	assert.NoFileExists(t, filepath.Join(dir, "file"))
	require.NoError(t, m.Unmount(dir))
	assert.FileExists(t, filepath.Join(dir, "file"))
}

func TestSymbolicLinksToSourceAndTargetAreFollowed(t *testing.T) {
	inEveryWay(t, func(t *testing.T, m *Mounter, mount func(string, string, string, ...string) error) {
		source, target, links := t.TempDir(), t.TempDir(), t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(source, "file"), nil, 0o600))
		require.NoError(t, os.Symlink(source, filepath.Join(links, "source")))
		require.NoError(t, os.Symlink(target, filepath.Join(links, "target")))
		require.NoError(t, mount(filepath.Join(links, "source"), filepath.Join(links, "target"), "", "bind"))
		unmountAtEnd(t, m, target)
		assert.FileExists(t, filepath.Join(target, "file"))
	})
}

func TestAValueTooLongForFsconfigIsMountedAllTheSame(t *testing.T) {
	m := begin(t)
	dir := t.TempDir()
	long := strings.Repeat("x", 300)
	require.NoError(t, m.Mount(long, dir, "tmpfs", nil))
	unmountAtEnd(t, m, dir)
	assert.Equal(t, long, infoOf(t, dir).Source)
}

func TestMountErrors(t *testing.T) {
	m := begin(t)
	dir := t.TempDir()
	absent := filepath.Join(dir, "absent")
	mounted := mountTmpfs(t, m)
	for name, test := range map[string]struct {
		source, target, fstype string
		options, sensitive     []string
		is                     error
		says                   []string
	}{
		"the source is absent": {
			source: absent, target: dir, options: []string{"bind", "ro"}, is: fs.ErrNotExist,
			says: []string{fmt.Sprintf("bind %q on %q (options \"bind,ro\")", absent, dir), "open_tree " + absent},
		},
		"the target is absent": {
			source: dir, target: absent, options: []string{"bind"}, is: fs.ErrNotExist, says: []string{"move_mount to " + absent},
		},
		"the target is empty":     {target: "", fstype: "tmpfs", is: fs.ErrNotExist, says: []string{"the target is empty"}},
		"a directory on a file":   {source: dir, target: "/proc/self/exe", options: []string{"bind"}, is: unix.ENOTDIR},
		"an unknown type":         {target: dir, fstype: "nonesuch", is: unix.ENODEV, says: []string{"mount.nonesuch"}},
		"a type that is a path":   {target: dir, fstype: "../bin/sh", is: unix.EINVAL, says: []string{"not a type of file system"}},
		"no type":                 {source: "/dev/null", target: dir, is: unix.EINVAL, says: []string{"not given, and is not guessed"}},
		"auto as the type":        {source: "/dev/null", target: dir, fstype: "auto", is: unix.EINVAL, says: []string{"not guessed"}},
		"flags without a type":    {target: mounted, options: []string{"shared", "ro"}, is: unix.EINVAL, says: []string{"not guessed"}},
		"a bad value":             {target: dir, fstype: "tmpfs", options: []string{"size=lots"}, is: unix.EINVAL, says: []string{`option "size=lots"`, "the kernel: tmpfs: Bad value for 'size'"}},
		"an unknown option":       {target: dir, fstype: "tmpfs", options: []string{"nonesuch"}, is: unix.EINVAL, says: []string{"Unknown parameter 'nonesuch'"}},
		"a sensitive bad value":   {target: dir, fstype: "tmpfs", sensitive: []string{"nr_inodes=hunter2"}, is: unix.EINVAL, says: []string{`options "<masked>"`, "the kernel: "}},
		"a sensitive bad option":  {target: dir, fstype: "tmpfs", sensitive: []string{"hunter2"}, is: unix.EINVAL, says: []string{"Unknown parameter '<masked>'"}},
		"a parameter with bind":   {source: dir, target: dir, options: []string{"bind", "size=1M"}, is: unix.EINVAL, says: []string{`"size=1M"`, "no effect on a bind mount"}},
		"sync with bind":          {source: dir, target: dir, options: []string{"bind", "sync"}, is: unix.EINVAL, says: []string{`"sync"`}},
		"a secret with bind":      {source: dir, target: dir, options: []string{"bind"}, sensitive: []string{"k=hunter2"}, is: unix.EINVAL, says: []string{masked}},
		"remount of no mount":     {target: dir, options: []string{"remount", "ro"}, is: unix.EINVAL, says: []string{"change the mount on", "nothing is mounted there"}},
		"bind remount of none":    {target: dir, options: []string{"bind", "remount", "ro"}, is: unix.EINVAL, says: []string{"nothing is mounted there"}},
		"propagation of no mount": {target: dir, options: []string{"shared"}, is: unix.EINVAL, says: []string{"nothing is mounted there"}},
		"an option as the source": {source: "-oexec", target: dir, fstype: "tmpfs", is: unix.EINVAL, says: []string{"the source begins with \"-\""}},
		"an option as the target": {source: dir, target: "-oexec", options: []string{"bind"}, is: unix.EINVAL, says: []string{"the target begins"}},
		"an option as the type":   {source: dir, target: dir, fstype: "-oexec", is: unix.EINVAL, says: []string{"the file system type begins"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := m.MountSensitive(test.source, test.target, test.fstype, test.options, test.sensitive)
			require.ErrorIs(t, err, test.is)
			for _, text := range test.says {
				assert.ErrorContains(t, err, text)
			}
			assert.NotContains(t, err.Error(), "hunter2")
			assert.NotContains(t, err.Error(), "CAP_SYS_ADMIN")
		})
	}
}

func TestWithoutTheCapabilityErrorsSayWhatIsNeeded(t *testing.T) {
	m := begin(t)
	dir := t.TempDir()
	mounted := mountTmpfs(t, m)
	for name, f := range map[string]func() error{
		"tmpfs":   func() error { return m.Mount("", dir, "tmpfs", nil) },
		"bind":    func() error { return m.Mount(dir, dir, "", []string{"bind", "ro"}) },
		"remount": func() error { return m.Mount("", mounted, "", []string{"remount", "ro"}) },
		"private": func() error { return m.Mount("", mounted, "", []string{"private"}) },
		"unmount": func() error { return m.Unmount(mounted) },
	} {
		t.Run(name, func(t *testing.T) {
			err := onThread(t, dropCapability(unix.CAP_SYS_ADMIN), f)
			require.ErrorIs(t, err, unix.EPERM)
			require.ErrorIs(t, err, fs.ErrPermission)
			assert.ErrorContains(t, err, "root (CAP_SYS_ADMIN)")
		})
	}
}

func TestMountFlagsOfTheCommand(t *testing.T) {
	m := begin(t)
	source, target := t.TempDir(), t.TempDir()
	require.NoError(t, m.MountSensitiveWithoutSystemdWithMountFlags(source, target, "", []string{"bind"}, nil, []string{"--no-canonicalize"}))
	require.NoError(t, m.Unmount(target))
	require.NoError(t, m.MountSensitiveWithoutSystemd(source, target, "", []string{"bind"}, nil))
	require.NoError(t, m.Unmount(target))
	err := m.MountSensitiveWithoutSystemdWithMountFlags(source, target, "", []string{"bind"}, nil, []string{"--read-only"})
	assert.ErrorIs(t, err, errors.ErrUnsupported)
	assert.ErrorContains(t, err, "--read-only")
}
