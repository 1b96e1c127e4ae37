// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/sys/mountinfo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
)

// begin is how each test that mounts begins. The mounts that it leaves fail it.
func begin(t *testing.T) {
	t.Helper()
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
}

// mountsAt returns the lines of the mount table about path, the uppermost mount last.
func mountsAt(t *testing.T, path string) []*mountinfo.Info {
	t.Helper()
	infos, err := mountinfo.GetMounts(func(info *mountinfo.Info) (skip, stop bool) { return info.Mountpoint != path, false })
	require.NoError(t, err)
	return infos
}

// mounted returns the line of the mount table about the volume, and its options as a set.
func (f *fixture) mounted() (info *mountinfo.Info, options map[string]string) {
	f.Helper()
	infos := mountsAt(f.T, f.path)
	require.Len(f, infos, 1, "mounts at %s", f.path)
	options = make(map[string]string)
	for option := range strings.SplitSeq(infos[0].Options+","+infos[0].VFSOptions, ",") {
		name, value, _ := strings.Cut(option, "=")
		options[name] = value
	}
	return infos[0], options
}

func TestAMemoryVolumeEndsAtItsSizeLimit(t *testing.T) {
	begin(t)
	f := newFixture(t, v1.EmptyDirVolumeSource{Medium: "Memory", SizeLimit: ptr.To(resource.MustParse("1Mi"))})
	f.setUp()
	var stat unix.Statfs_t
	require.NoError(t, unix.Statfs(f.path, &stat))
	assert.EqualValues(t, mebi, stat.Blocks*uint64(stat.Bsize))
	err := os.WriteFile(filepath.Join(f.path, "file"), make([]byte, 2*mebi), 0o644)
	assert.ErrorIs(t, err, unix.ENOSPC)
	f.tearDown()
}

func TestTheKernelKnowsTheSizeOfAMemoryVolume(t *testing.T) {
	begin(t)
	limited := newPod(limiting("64Mi"), limiting("32Mi"))
	for name, test := range map[string]struct {
		limit *resource.Quantity
		pod   *v1.Pod
		want  string // size in the mount table, empty for the kernel's default
	}{
		"limits":                        {nil, limited, "98304k"},
		"limits and a sizeLimit":        {ptr.To(resource.MustParse("10Mi")), limited, "10240k"},
		"a sizeLimit of part of a page": {ptr.To(resource.MustParse("1")), limited, "4k"},
		"no limits, a sizeLimit of 0":   {ptr.To(resource.MustParse("0")), newPod(v1.ResourceRequirements{}), ""},
		"no limits":                     {nil, newPod(v1.ResourceRequirements{}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixtureWith(t, v1.EmptyDirVolumeSource{Medium: "Memory", SizeLimit: test.limit}, test.pod, nil)
			f.setUp()
			info, options := f.mounted()
			assert.Equal(t, "tmpfs", info.FSType)
			assert.Equal(t, test.want, options["size"])
			f.tearDown()
		})
	}
}

func TestTheKernelKnowsThePageSizeOfAHugePagesVolume(t *testing.T) {
	begin(t)
	for _, medium := range []v1.StorageMedium{"HugePages", "HugePages-2Mi"} {
		t.Run(string(medium), func(t *testing.T) {
			f := newFixture(t, v1.EmptyDirVolumeSource{Medium: medium, SizeLimit: ptr.To(resource.MustParse("3Mi"))})
			f.setUp()
			info, options := f.mounted()
			assert.Equal(t, "hugetlbfs", info.FSType)
			assert.Equal(t, "2M", options["pagesize"])
			assert.Equal(t, "4194304", options["size"])
			f.tearDown()
		})
	}
}

func TestAPageSizeThatTheKernelLacksIsNamedWithThoseThatItHas(t *testing.T) {
	begin(t)
	f := newFixtureWith(t, v1.EmptyDirVolumeSource{Medium: "HugePages"}, newPod(asking("hugepages-3Mi")), nil)
	err := f.trySetUp()
	require.ErrorIs(t, err, volume.ErrNotSupported)
	assert.ErrorContains(t, err, "3Mi")
	assert.ErrorContains(t, err, formatPageSizes(kernelPageSizes()))
	assert.NotEmpty(t, kernelPageSizes())
	f.tearDown()
}

func TestNothingCanBeExecutedWithNoExec(t *testing.T) {
	begin(t)
	for _, medium := range []v1.StorageMedium{"", "Memory"} {
		for _, noExec := range []bool{false, true} {
			t.Run(string(medium), func(t *testing.T) {
				f := newFixture(t, v1.EmptyDirVolumeSource{Medium: medium})
				f.restart(Options{NoExec: noExec})
				f.setUp()
				program := filepath.Join(f.path, "program")
				// Written by a child process: what this one has open for writing, another child may have too.
				require.NoError(t, exec.Command("cp", "/bin/true", program).Run())
				err := exec.Command(program).Run()
				if noExec {
					assert.ErrorIs(t, err, unix.EACCES)
				} else {
					assert.NoError(t, err)
				}
				f.tearDown()
			})
		}
	}
}

func TestEachOptionIsOnTheMountAndNoOther(t *testing.T) {
	begin(t)
	for _, medium := range []v1.StorageMedium{"", "Memory", "HugePages"} {
		for name, options := range map[string]Options{
			"noexec": {NoExec: true},
			"nosuid": {NoSUID: true},
			"nodev":  {NoDev: true},
		} {
			for _, fsGroup := range []*int64{nil, ptr.To[int64](54321)} {
				t.Run(string(medium)+" "+name, func(t *testing.T) {
					f := newFixture(t, v1.EmptyDirVolumeSource{Medium: medium})
					f.restart(options)
					require.NoError(t, f.setUpWith(volume.SetUpOptions{FSGroup: fsGroup}))
					_, found := f.mounted()
					for _, flag := range []string{"noexec", "nosuid", "nodev"} {
						_, has := found[flag]
						assert.Equal(t, flag == name, has, flag)
					}
					f.wantPresence(volume.Present)
					f.tearDown()
				})
			}
		}
	}
}

func TestADirectoryWithOptionsMayBeOnATmpfs(t *testing.T) {
	begin(t)
	f := newFixture(t, v1.EmptyDirVolumeSource{})
	require.NoError(t, os.Mkdir(f.host.Root, 0o755))
	f.mountTmpfs(f.host.Root)
	defer f.unmount(f.host.Root)
	f.restart(Options{NoExec: true})
	for range 2 {
		f.setUp()
		f.wantPresence(volume.Present)
	}
	info, _ := f.mounted()
	assert.Equal(t, strings.TrimPrefix(f.path, f.host.Root), info.Root)
	f.tearDown()
}

func TestAnOptionThatCameLaterIsNotSilentlyMissing(t *testing.T) {
	begin(t)
	for _, medium := range []v1.StorageMedium{"Memory", "HugePages"} {
		t.Run(string(medium), func(t *testing.T) {
			f := newFixture(t, v1.EmptyDirVolumeSource{Medium: medium})
			f.restart(Options{NoDev: true})
			f.setUp()
			f.restart(Options{NoDev: true, NoExec: true})
			err := f.trySetUp()
			require.ErrorIs(t, err, volume.ErrInUse)
			assert.ErrorContains(t, err, "noexec")
			f.wantPresence(volume.Unknown)
			f.restart(Options{})
			f.setUp()
			f.wantPresence(volume.Present)
			f.tearDown()
		})
	}
	t.Run("a directory gets it", func(t *testing.T) {
		f := newFixture(t, v1.EmptyDirVolumeSource{})
		f.setUp()
		f.write(f.path, "file")
		f.restart(Options{NoExec: true})
		f.wantPresence(volume.Absent)
		f.setUp()
		f.wantPresence(volume.Present)
		_, options := f.mounted()
		assert.Contains(t, options, "noexec")
		assert.FileExists(t, filepath.Join(f.path, "file"))
		f.restart(Options{})
		f.setUp() // which does not take it away
		f.wantPresence(volume.Present)
		f.tearDown()
	})
}

func TestPagesOfAMemoryVolumeAreNotSwappedOut(t *testing.T) {
	begin(t)
	f := newFixture(t, v1.EmptyDirVolumeSource{Medium: "Memory"})
	f.setUp()
	_, options := f.mounted()
	_, noSwap := options["noswap"]
	assert.Equal(t, kernelHasNoSwap(t), noSwap)
	f.tearDown()
}

// kernelHasNoSwap asks with a mount of its own.
func kernelHasNoSwap(t *testing.T) bool {
	t.Helper()
	dir := t.TempDir()
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, "noswap")
	if err == unix.EINVAL {
		return false
	}
	require.NoError(t, err)
	require.NoError(t, unix.Unmount(dir, 0))
	return true
}

// A user namespace may mount a tmpfs, but not with noswap.
func TestAMemoryVolumeInAUserNamespaceIsMountedWithoutNoSwap(t *testing.T) {
	const child = "EMPTYDIR_TEST_USER_NAMESPACE"
	if os.Getenv(child) == "" {
		begin(t)
		identity := []syscall.SysProcIDMap{{Size: 1}}
		runAgain(t, t.TempDir(), child+"=1", &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: identity, GidMappings: identity,
		})
		return
	}
	f := newFixture(t, v1.EmptyDirVolumeSource{Medium: "Memory"})
	for range 2 {
		f.setUp()
		_, options := f.mounted()
		assert.NotContains(t, options, "noswap")
		f.wantPresence(volume.Present)
		f.tearDown()
	}
	assert.True(t, f.plugin.tmpfs.NoSwapRefused())
}

// runAgain runs the test in a process of its own, that has its files in dir.
func runAgain(t *testing.T, dir, env string, attr *syscall.SysProcAttr) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.v", "-test.run=^"+t.Name()+"$")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, env)
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name(), "it must have run")
}
