// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	k8sexec "k8s.io/utils/exec"
	fakeexec "k8s.io/utils/exec/testing"

	"github.com/volumekit/volumekit/internal/program"
	"github.com/volumekit/volumekit/internal/syscallfault"
)

var types = []string{"ext4", "xfs", "btrfs"}

func TestAFileSystemIsMadeAsAskedFor(t *testing.T) {
	for _, fsType := range append([]string{"ext2", "ext3"}, types...) {
		for _, onDevice := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, device %t", fsType, onDevice), func(t *testing.T) {
				path := image(t, roomy)
				if onDevice {
					path = loop(t, path)
				}
				id := uuid.NewString()
				require.NoError(t, Make(t.Context(), nil, path, MakeOptions{Type: fsType, UUID: strings.ToUpper(id), Label: "-f"}))
				assert.Equal(t, Content{Type: fsType, IsFileSystem: true, UUID: id, Label: "-f"}, probed(t, path))
			})
		}
	}
}

func TestOptionsReachMkfs(t *testing.T) {
	path := image(t, roomy)
	require.NoError(t, Make(t.Context(), nil, path, MakeOptions{Type: "ext4", Options: []string{"-b1024", "-O", "^has_journal", "-vm", "7", "-E", "stride=4", "-Estripe_width=8"}}))
	said := run(t, "dumpe2fs", "-h", path)
	assert.Regexp(t, `Block size: +1024`, said)
	assert.Regexp(t, `Reserved block count: +36700`, said) // 7 percent
	assert.Regexp(t, `RAID stride: +4`, said)
	assert.Regexp(t, `RAID stripe width: +8`, said)
	assert.NotContains(t, said, "has_journal")

	path = image(t, roomy)
	require.NoError(t, Make(t.Context(), nil, path, MakeOptions{Type: "btrfs", Options: []string{"--nodesize=4k", "--label", "a b"}}))
	assert.Equal(t, "a b", probed(t, path).Label)

	path = image(t, roomy)
	require.NoError(t, Make(t.Context(), nil, path, MakeOptions{Type: "xfs", UUID: uuid.NewString(), Options: []string{"-m", "reflink=0", "-i", "size=1024"}}))
	assert.Equal(t, "xfs", probed(t, path).Type)
}

func TestWhatIsAllocatedStaysAllocated(t *testing.T) {
	for _, fsType := range types {
		path := image(t, roomy)
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Fallocate(int(f.Fd()), 0, 0, roomy))
		require.NoError(t, f.Close())
		require.NoError(t, Make(t.Context(), nil, loop(t, path), MakeOptions{Type: fsType}))
		var stat unix.Stat_t
		require.NoError(t, unix.Stat(path, &stat))
		assert.GreaterOrEqual(t, stat.Blocks*512, int64(roomy), fsType)
	}
}

func TestMkfsRunsOnlyOnWhatIsBlank(t *testing.T) {
	refuse := &fakeexec.FakeExec{ExactOrder: true} // which has no command to run
	for name, prepare := range map[string]func(path string){
		"an ext4":                          func(path string) { run(t, "mkfs.ext4", "-q", path) },
		"an ext4 whose beginning is zeros": func(path string) { run(t, "mkfs.ext4", "-q", path); wiped(t, path, 4096) },
		"a byte":                           func(path string) { write(t, path, "x", 4096) },
	} {
		t.Run(name, func(t *testing.T) {
			path := image(t, 64*mebi)
			prepare(path)
			before := run(t, "sha256sum", path)
			for _, fsType := range types {
				for _, x := range []k8sexec.Interface{nil, refuse} {
					err := Make(t.Context(), x, path, MakeOptions{Type: fsType})
					assert.ErrorIs(t, err, ErrNotBlank)
					assert.ErrorContains(t, err, probed(t, path).Type)
				}
			}
			assert.Equal(t, before, run(t, "sha256sum", path))
		})
	}
	t.Run("what cannot be read", func(t *testing.T) {
		path := image(t, 64*mebi)
		device := loop(t, path)
		require.NoError(t, os.Truncate(path, 0))
		for _, path := range []string{device, path, t.TempDir(), "image"} {
			assert.Error(t, Make(t.Context(), refuse, path, MakeOptions{Type: "ext4"}))
		}
	})
	assert.Zero(t, refuse.CommandCalls)
}

func TestTwoDoNotMakeAFileSystemAtOnce(t *testing.T) {
	path := image(t, roomy)
	var errs []error
	made := make(chan error)
	for range 4 {
		go func() { made <- Make(t.Context(), nil, path, MakeOptions{Type: "ext4"}) }()
	}
	for range 4 {
		if err := <-made; err != nil {
			errs = append(errs, err)
		}
	}
	require.Len(t, errs, 3)
	for _, err := range errs {
		assert.ErrorIs(t, err, ErrNotBlank)
	}
}

func TestAFileSystemIsNotMadeWhileSomebodyHasALock(t *testing.T) {
	for _, how := range []int{unix.LOCK_EX, unix.LOCK_SH} {
		path := image(t, roomy)
		f, err := os.Open(path)
		require.NoError(t, err)
		defer f.Close()
		require.NoError(t, unix.Flock(int(f.Fd()), how))
		synctest.Test(t, func(t *testing.T) {
			assert.ErrorIs(t, Make(t.Context(), nil, path, MakeOptions{Type: "ext4"}), ErrInUse)
		})
		assert.True(t, probed(t, path).Blank)
	}
}

// The program outlives whoever called Make, if that is killed; the lock has to live as long.
func TestMkfsHoldsTheLock(t *testing.T) {
	dir := t.TempDir()
	path := image(t, roomy)
	script := fmt.Sprintf("#!/bin/sh\nreadlink /proc/$$/fd/3; exec 9<%s; flock -n -x 9 && echo unlocked\nexit 7\n", path)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mkfs.ext4"), []byte(script), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	err := Make(t.Context(), nil, path, MakeOptions{Type: "ext4"})
	var exited *program.ExitError
	require.ErrorAs(t, err, &exited)
	assert.Equal(t, 7, exited.Code)
	assert.Equal(t, path+"\n", exited.Output)
}

func TestAProgramThatSucceedsWithoutMakingAnythingIsNoticed(t *testing.T) {
	path := image(t, roomy)
	x := &fakeexec.FakeExec{CommandScript: []fakeexec.FakeCommandAction{func(name string, args ...string) k8sexec.Cmd {
		assert.Equal(t, "mkfs.xfs", name)
		assert.Equal(t, []string{"-q", "-K", "-m", "uuid=6f1c24a7-0f0b-4f0e-9a3c-0123456789ab", "-L", "x", "-n", "size=8k", path}, args)
		cmd := &fakeexec.FakeCmd{CombinedOutputScript: []fakeexec.FakeAction{func() ([]byte, []byte, error) { return nil, nil, nil }}}
		return fakeexec.InitFakeCmd(cmd, name, args...)
	}}}
	err := Make(t.Context(), x, path, MakeOptions{
		Type: "xfs", UUID: "6f1c24a7-0f0b-4f0e-9a3c-0123456789ab", Label: "x", Options: []string{"-nsize=8k"},
	})
	assert.ErrorContains(t, err, "mkfs.xfs succeeded, but what is there is blank")
}

func TestAMissingMkfsIsNamedWithItsPackage(t *testing.T) {
	path := image(t, roomy)
	x := &fakeexec.FakeExec{CommandScript: []fakeexec.FakeCommandAction{func(name string, args ...string) k8sexec.Cmd {
		cmd := &fakeexec.FakeCmd{CombinedOutputScript: []fakeexec.FakeAction{func() ([]byte, []byte, error) { return nil, nil, exec.ErrNotFound }}}
		return fakeexec.InitFakeCmd(cmd, name, args...)
	}}}
	err := Make(t.Context(), x, path, MakeOptions{Type: "btrfs"})
	assert.ErrorIs(t, err, program.ErrNotFound)
	assert.ErrorContains(t, err, "mkfs.btrfs (in Debian it comes with the package btrfs-progs)")
}

func TestWhatMkfsSaysIsInTheError(t *testing.T) {
	err := Make(t.Context(), nil, image(t, mebi), MakeOptions{Type: "btrfs"})
	assert.ErrorContains(t, err, "too small")
}

// Whatever a killed mkfs leaves, it is neither a file system nor taken for blank if it is not.
func TestAKilledMkfsLeavesNoFileSystem(t *testing.T) {
	supervisor := syscallfault.New(t)
	for _, fsType := range types {
		t.Run(fsType, func(t *testing.T) {
			o := MakeOptions{Type: fsType, UUID: uuid.NewString()}
			name, args, err := o.arguments()
			require.NoError(t, err)
			name, err = exec.LookPath(name)
			require.NoError(t, err)
			const size = 320 * mebi
			make := func(n int) (path string, calls []syscallfault.Call) {
				path = image(t, size)
				calls, err := supervisor.Run(exec.Command(name, append(args, path)...), func(at int, _ syscallfault.Call) syscallfault.Verdict {
					if at == n {
						return syscallfault.Kill()
					}
					return syscallfault.Continue()
				})
				require.NoError(t, err)
				return path, calls
			}
			path, calls := make(-1)
			require.Equal(t, fsType, probed(t, path).Type)
			require.NoError(t, os.Remove(path))

			// Nothing but a sync, and the copies of its superblock, may follow once the file system is there.
			left := map[string]int{}
			complete := len(calls)
			for _, n := range points(len(calls)) {
				path, _ := make(n)
				content := probed(t, path)
				if content.Blank {
					assert.Empty(t, dataOf(t, path), "call %d", n)
				}
				if content.IsFileSystem {
					complete = min(complete, n)
				}
				kind, _, _ := strings.Cut(content.describe(), " (")
				kind, _, _ = strings.Cut(kind, " at offset")
				left[kind]++

				if n%4 != 0 && n < complete-5 {
					require.NoError(t, os.Remove(path))
					continue
				}
				// It can be made again if it names what was begun, and in no other case.
				other := MakeOptions{Type: fsType, UUID: uuid.NewString(), Again: true}
				again := o
				again.Again = true
				if !content.Blank {
					assert.ErrorIs(t, Make(t.Context(), nil, path, o), ErrNotBlank)
					assert.ErrorIs(t, Make(t.Context(), nil, path, other), ErrNotBlank)
				}
				assert.Equal(t, content, probed(t, path))
				if err := Make(t.Context(), nil, path, again); content.Blank || content.IsLeftOf(o.UUID) {
					require.NoError(t, err)
					assert.Equal(t, Content{Type: fsType, IsFileSystem: true, UUID: o.UUID}, probed(t, path))
					run(t, map[string]string{"ext4": "e2fsck", "xfs": "xfs_repair", "btrfs": "btrfsck"}[fsType],
						map[string]string{"ext4": "-fn", "xfs": "-nf", "btrfs": "--readonly"}[fsType], path)
				} else {
					assert.ErrorIs(t, err, ErrNotBlank)
				}
				require.NoError(t, os.Remove(path))
			}
			t.Logf("%d calls; left behind: %v; finished before call %d", len(calls), left, complete)
			assert.NotZero(t, left[map[string]string{"ext4": "ext4 backup superblock", "xfs": "unfinished xfs", "btrfs": "unfinished btrfs"}[fsType]])
			for _, call := range calls[complete:] {
				sync := call.Name == "fsync" || call.Name == "fdatasync"
				mirror := fsType == "btrfs" && strings.HasSuffix(call.String(), fmt.Sprintf(", 4096, %d)", btrfsMirrors[0]))
				assert.True(t, sync || mirror, "after the file system was complete: %s", call)
			}
		})
	}
}

func TestAnUnfinishedXFSIsMadeAgainOnADevice(t *testing.T) {
	path := image(t, roomy)
	device := loop(t, path)
	o := MakeOptions{Type: "xfs", UUID: uuid.NewString(), Again: true}
	require.NoError(t, Make(t.Context(), nil, device, o))
	assert.ErrorIs(t, Make(t.Context(), nil, device, o), ErrNotBlank, "it is finished")
	write(t, device, "\x01", 126) // sb_inprogress
	assert.Equal(t, "unfinished xfs (mkfs.xfs or xfs_copy was interrupted; UUID "+o.UUID+")", probed(t, device).Type)
	require.NoError(t, Make(t.Context(), nil, device, o))
	assert.Equal(t, "xfs", probed(t, device).Type)
}

// dataOf returns the offset of the first data in the file that are not zero, in words.
func dataOf(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var from, to int64
	for {
		if from, err = unix.Seek(int(f.Fd()), to, unix.SEEK_DATA); err != nil {
			require.ErrorIs(t, err, unix.ENXIO)
			return ""
		}
		to, err = unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
		require.NoError(t, err)
		s := &source{ctx: t.Context(), r: f, size: to}
		at, err := s.firstData(from, to)
		require.NoError(t, err)
		if at >= 0 {
			return fmt.Sprintf("data at offset %d", at)
		}
	}
}

// points are at which calls of so many a program is killed: at most of the first and last ones, and a few between.
func points(calls int) []int {
	var all []int
	for n := range calls {
		if n < 12 || n >= calls-12 || n%(calls/12+1) == 0 {
			all = append(all, n)
		}
	}
	return all
}

func TestAMkfsThatIsKilledByCtxIsReported(t *testing.T) {
	dir := t.TempDir()
	ready := filepath.Join(dir, "ready")
	require.NoError(t, unix.Mkfifo(ready, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mkfs.ext4"), fmt.Appendf(nil, "#!/bin/sh\necho > %s\nsleep 1000\n", ready), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, _ = os.ReadFile(ready)
		cancel()
	}()
	err := Make(ctx, nil, image(t, roomy), MakeOptions{Type: "ext4"})
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorContains(t, err, "killed")
}

func TestOptionsThatAreNotSafeAreRefusedByName(t *testing.T) {
	for _, test := range []struct {
		fsType  string
		options []string
		want    string
	}{
		{"ext4", []string{"-F"}, "-F is refused: nothing is ever forced"},
		{"ext4", []string{"-qF"}, "-F is refused"},
		{"ext4", []string{"-b", "4096", "-F"}, "-F is refused"},
		{"ext4", []string{"/dev/sda"}, `"/dev/sda" is not an option`},
		{"ext4", []string{"-q", "100"}, `"100" is not an option`},
		{"ext4", []string{"--"}, `"--" is not an option`},
		{"ext4", []string{"-"}, `"-" is not an option`},
		{"ext4", []string{""}, `"" is not an option`},
		{"ext4", []string{"-b"}, "-b has no value"},
		{"ext4", []string{"-d", "/etc"}, "-d is refused: it names another file"},
		{"ext4", []string{"-U", "random"}, "-U is refused"},
		{"ext4", []string{"-n"}, "-n is refused: it makes no file system"},
		{"ext4", []string{"-J", "size=4,device=/dev/sda"}, "-J device is refused"},
		{"ext4", []string{"-Joops,device=/dev/sda"}, "-J device is refused"},
		{"ext4", []string{"-E", "nodiscard,offset=4096"}, "-E offset is refused"},
		{"ext4", []string{"-O", "journal_dev"}, "-O journal_dev is refused"},
		{"ext4", []string{"-y"}, "-y is not one of those"},
		{"ext4", []string{"-é"}, "is not one of those"},
		{"ext4", []string{"-L", "a\x00b"}, "zero byte"},
		{"ext4", []string{"--force"}, "--force is not one of those"},
		{"xfs", []string{"-f"}, "-f is refused: nothing is ever forced"},
		{"xfs", []string{"-Kf"}, "-f is refused"},
		{"xfs", []string{"-d", "agcount=4,name=/dev/sda"}, "-d name is refused"},
		{"xfs", []string{"-l", "logdev=/dev/sda"}, "-l logdev is refused"},
		{"xfs", []string{"-r", "rtdev=/dev/sda"}, "-r rtdev is refused"},
		{"xfs", []string{"-m", "crc=1,uuid=x"}, "-m uuid is refused"},
		{"xfs", []string{"-p", "proto"}, "-p is refused"},
		{"xfs", []string{"-N"}, "-N is refused"},
		{"btrfs", []string{"-f"}, "-f is refused"},
		{"btrfs", []string{"--force"}, "--force is refused"},
		{"btrfs", []string{"--forc"}, "--forc is not one of those"},
		{"btrfs", []string{"--rootdir=/etc"}, "--rootdir is refused"},
		{"btrfs", []string{"--mixed=1"}, "--mixed has no value"},
		{"btrfs", []string{"--label"}, "--label has no value"},
		{"btrfs", []string{"/dev/sdb"}, `"/dev/sdb" is not an option`},
		{"btrfs", []string{"-O", "list-all"}, "-O list-all is refused"},
		{"zfs", nil, `type "zfs"`},
		{"", nil, `type ""`},
	} {
		err := CheckOptions(test.fsType, test.options)
		assert.ErrorIs(t, err, ErrInvalid, test.options)
		assert.ErrorContains(t, err, test.want)
		assert.ErrorIs(t, Make(t.Context(), nil, image(t, mebi), MakeOptions{Type: test.fsType, Options: test.options}), ErrInvalid)
	}
}

func TestOptionsThatAreSafeAreAccepted(t *testing.T) {
	for fsType, lists := range map[string][][]string{
		"ext4":  {nil, {"-m1"}, {"-b", "4096", "-i", "-7"}, {"-O", "^has_journal,bigalloc", "-C", "65536"}, {"-T", "largefile"}},
		"xfs":   {{"-K"}, {"-d", "su=64k,sw=4"}, {"-m", "reflink=1", "-n", "ftype=1"}, {"-l", "size=64m"}},
		"btrfs": {{"-M"}, {"--metadata", "single"}, {"--nodesize=16k", "-q"}},
	} {
		for _, options := range lists {
			assert.NoError(t, CheckOptions(fsType, options), "%s %q", fsType, options)
		}
	}
}

func TestUUIDsAndLabelsAreChecked(t *testing.T) {
	for _, o := range []MakeOptions{
		{Type: "ext4", UUID: "clear"},
		{Type: "xfs", UUID: "6f1c24a7-0f0b-4f0e-9a3c-0123456789ab,crc=0"},
		{Type: "xfs", Label: "thirteen byte"},
		{Type: "ext4", Label: strings.Repeat("x", 17)},
	} {
		assert.ErrorIs(t, Make(t.Context(), nil, image(t, mebi), o), ErrInvalid)
	}
}

func TestNoDefaultForces(t *testing.T) {
	for fsType, m := range makers {
		for _, forcing := range []string{"-f", "-F", "--force"} {
			assert.False(t, slices.Contains(m.always, forcing), fsType)
		}
	}
}
