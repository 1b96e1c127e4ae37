// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestWhatMkfsMadeIsWhatBlkidSees(t *testing.T) {
	const id = "6f1c24a7-0f0b-4f0e-9a3c-0123456789ab"
	for name, test := range map[string]struct {
		program string
		args    []string
		want    Content
	}{
		"ext2":                      {"mkfs.ext2", []string{"-q", "-U", id, "-L", "a label of 16 b."}, Content{Type: "ext2", UUID: id, Label: "a label of 16 b."}},
		"ext3":                      {"mkfs.ext3", []string{"-q", "-U", id}, Content{Type: "ext3", UUID: id}},
		"ext4":                      {"mkfs.ext4", []string{"-q", "-U", id, "-L", "ünï"}, Content{Type: "ext4", UUID: id, Label: "ünï"}},
		"ext4 without a journal":    {"mkfs.ext4", []string{"-q", "-U", id, "-O", "^has_journal"}, Content{Type: "ext4", UUID: id}},
		"ext4 with blocks of 1 KiB": {"mkfs.ext4", []string{"-q", "-U", id, "-b", "1024"}, Content{Type: "ext4", UUID: id}},
		"xfs":                       {"mkfs.xfs", []string{"-q", "-m", "uuid=" + id, "-L", "twelve bytes"}, Content{Type: "xfs", UUID: id, Label: "twelve bytes"}},
		"btrfs":                     {"mkfs.btrfs", []string{"-q", "-U", id, "-L", "label"}, Content{Type: "btrfs", UUID: id, Label: "label"}},
		"f2fs":                      {"mkfs.f2fs", []string{"-q", "-U", id, "-l", "label"}, Content{Type: "f2fs", UUID: id, Label: "label"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := image(t, roomy)
			run(t, test.program, append(test.args, path)...)
			test.want.IsFileSystem = true
			assert.Equal(t, test.want, probed(t, path))

			assert.Equal(t, test.want.Type, run(t, "blkid", "-p", "-o", "value", "-s", "TYPE", path))
			assert.Equal(t, test.want.UUID, run(t, "blkid", "-p", "-o", "value", "-s", "UUID", path))
			assert.Equal(t, test.want.Label, run(t, "blkid", "-p", "-o", "value", "-s", "LABEL", path))
		})
	}
}

func TestWhatOtherProgramsMakeIsNamed(t *testing.T) {
	for name, test := range map[string]struct {
		make func(t *testing.T, path string)
		want Content
	}{
		"vfat":      {func(t *testing.T, path string) { run(t, "mkfs.vfat", path) }, Content{Type: "vfat", IsFileSystem: true}},
		"vfat 32":   {func(t *testing.T, path string) { run(t, "mkfs.vfat", "-F", "32", path) }, Content{Type: "vfat", IsFileSystem: true}},
		"exfat":     {func(t *testing.T, path string) { run(t, "mkfs.exfat", path) }, Content{Type: "exfat", IsFileSystem: true}},
		"ntfs":      {func(t *testing.T, path string) { run(t, "mkfs.ntfs", "-F", "-Q", path) }, Content{Type: "ntfs", IsFileSystem: true}},
		"swap":      {func(t *testing.T, path string) { run(t, "mkswap", path) }, Content{Type: "swap"}},
		"LUKS1":     {luks("luks1"), Content{Type: "LUKS"}},
		"LUKS2":     {luks("luks2"), Content{Type: "LUKS"}},
		"GPT":       {func(t *testing.T, path string) { run(t, "sgdisk", "-n", "1:0:0", path) }, Content{Type: "GPT partition table"}},
		"empty GPT": {func(t *testing.T, path string) { run(t, "sgdisk", "-o", path) }, Content{Type: "GPT partition table"}},
		"squashfs": {func(t *testing.T, path string) {
			run(t, "mksquashfs", t.TempDir(), path, "-noappend", "-quiet")
		}, Content{Type: "squashfs", IsFileSystem: true}},
		"iso9660": {func(t *testing.T, path string) {
			run(t, "genisoimage", "-quiet", "-o", path, t.TempDir())
		}, Content{Type: "iso9660", IsFileSystem: true}},
	} {
		t.Run(name, func(t *testing.T) {
			path := image(t, 64*mebi)
			test.make(t, path)
			assert.Equal(t, test.want, probed(t, path))
		})
	}
}

func luks(version string) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		key := filepath.Join(t.TempDir(), "key")
		require.NoError(t, os.WriteFile(key, []byte("not a secret"), 0o600))
		run(t, "cryptsetup", "luksFormat", "-q", "--type", version, "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-file", key, path)
	}
}

// A few signatures are of what no program makes on a file here.
func TestSignaturesAreNamed(t *testing.T) {
	const size = 64 * mebi
	for name, test := range map[string]struct {
		offset int64
		magic  string
		want   string
	}{
		"LVM2":                       {512, "LABELONE\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x20\x00\x00\x00LVM2 001", "LVM2 physical volume"},
		"RAID 1.0":                   {size - 8192, "\xfc\x4e\x2b\xa9\x01\x00\x00\x00", "Linux RAID member"},
		"RAID 1.1":                   {0, "\xfc\x4e\x2b\xa9\x01\x00\x00\x00", "Linux RAID member"},
		"RAID 1.2":                   {4096, "\xfc\x4e\x2b\xa9\x01\x00\x00\x00", "Linux RAID member"},
		"RAID 0.90":                  {size - 64<<10, "\xfc\x4e\x2b\xa9", "Linux RAID member"},
		"bcache":                     {4096 + 24, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81", "bcache device"},
		"BlueStore":                  {0, "bluestore block device\n", "Ceph BlueStore device"},
		"ZFS":                        {size - 256<<10 + 128<<10, "\x0c\xb1\xba\x00\x00\x00\x00\x00", "ZFS pool member"},
		"MBR":                        {446, "\x80\x00\x00\x00\x83" + strings.Repeat("\x00", 59) + "\x55\xaa", "MBR partition table"},
		"only the boot mark":         {510, "\x55\xaa", "boot sector"},
		"backup GPT":                 {size - 512, "EFI PART", fmt.Sprintf("backup of a GPT partition table at offset %d", size-512)},
		"second header of LUKS2":     {4 * mebi, "SKUL\xba\xbe", "second header of LUKS at offset 4194304"},
		"a byte at the beginning":    {7, "x", "data of unknown kind at offset 7"},
		"a byte in the first 4 MiB":  {4*mebi - 1, "\xff", "data of unknown kind at offset 4194303"},
		"a byte in the last 4 MiB":   {size - 4*mebi + 200<<10, "\x01", fmt.Sprintf("data of unknown kind at offset %d", size-4*mebi+200<<10)},
		"the last byte":              {size - 1, "\x80", fmt.Sprintf("data of unknown kind at offset %d", size-1)},
		"a byte in one of 32 parts":  {size/32*17 + 100<<10, "x", fmt.Sprintf("data of unknown kind at offset %d", size/32*17+100<<10)},
		"xfs with an absurd size":    {0, "XFSB\xff\xff\xff\xff", "damaged xfs (its superblock makes no sense)"},
		"ext with an absurd size":    {1024 + 0x38, "\x53\xef", "damaged ext2 (its superblock makes no sense)"},
		"btrfs with an absurd place": {64<<10 + 0x40, "_BHRfS_M", "damaged btrfs (its superblock makes no sense)"},
	} {
		t.Run(name, func(t *testing.T) {
			path := image(t, size)
			write(t, path, test.magic, test.offset)
			assert.Equal(t, Content{Type: test.want}, probed(t, path))
		})
	}
}

func TestABlankImageIsBlank(t *testing.T) {
	for _, size := range []int64{1, 511, 4096, 5000, mebi, 8*mebi - 1, 64 * mebi, 3<<30 + 512, 20 << 40 / 16} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			assert.Equal(t, Content{Blank: true}, probed(t, image(t, size)))
		})
	}
	t.Run("written with zeros", func(t *testing.T) {
		path := image(t, 16*mebi)
		wiped(t, path, 16*mebi)
		assert.Equal(t, Content{Blank: true}, probed(t, path))
	})
	t.Run("preallocated", func(t *testing.T) {
		path := image(t, 16*mebi)
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Fallocate(int(f.Fd()), 0, 0, 16*mebi))
		require.NoError(t, f.Close())
		assert.Equal(t, Content{Blank: true}, probed(t, path))
	})
	t.Run("a loop device, by a symbolic link", func(t *testing.T) {
		link := filepath.Join(t.TempDir(), "link")
		require.NoError(t, os.Symlink(loop(t, image(t, 16*mebi+512)), link))
		assert.Equal(t, Content{Blank: true}, probed(t, link))
	})
}

func TestAFileSystemWhoseBeginningIsGoneIsNotBlank(t *testing.T) {
	for name, test := range map[string]struct {
		program string
		args    []string
		size    int64
		wipe    int
		want    string
	}{
		"ext4":                         {"mkfs.ext4", []string{"-q"}, 512 * mebi, 4096, "ext4 backup superblock (group 1, "},
		"ext4, all of the first 4 MiB": {"mkfs.ext4", []string{"-q"}, 512 * mebi, 4*mebi + 64<<10, "ext4 backup superblock (group 1, "},
		"ext4 with 1 KiB":              {"mkfs.ext4", []string{"-q", "-b", "1024"}, 64 * mebi, 4096, "ext4 backup superblock (group 1, "},
		"ext2 with 2 KiB":              {"mkfs.ext2", []string{"-q", "-b", "2048"}, 256 * mebi, 4096, "ext2 backup superblock (group 1, "},
		"ext4 of one group":            {"mkfs.ext4", []string{"-q", "-b", "4096"}, 64 * mebi, 4096, "data of unknown kind at offset 4096"},
		"ext4 with sparse_super2":      {"mkfs.ext4", []string{"-q", "-O", "sparse_super2,^resize_inode", "-E", "num_backup_sb=1"}, 512 * mebi, 4*mebi + 64<<10, "ext4 backup superblock (group "},
		"xfs":                          {"mkfs.xfs", []string{"-q"}, 512 * mebi, 5 * mebi, "xfs allocation group (UUID "},
		"xfs of an odd size":           {"mkfs.xfs", []string{"-q"}, 512*mebi + 3*4096 + 512, 5 * mebi, "xfs allocation group (UUID "},
		"xfs of many groups":           {"mkfs.xfs", []string{"-q", "-d", "agcount=32"}, 16384*mebi + 5*4096, 5 * mebi, "xfs allocation group (UUID "},
		"btrfs":                        {"mkfs.btrfs", []string{"-q"}, 512 * mebi, 5 * mebi, "btrfs superblock mirror (UUID "},
		"f2fs":                         {"mkfs.f2fs", []string{"-q"}, 512 * mebi, 4096, "second superblock of f2fs at offset 4096"},
		"ntfs":                         {"mkfs.ntfs", []string{"-q", "-F", "-Q"}, 64 * mebi, 4096, "backup boot sector of ntfs at offset "},
	} {
		t.Run(name, func(t *testing.T) {
			path := image(t, test.size)
			run(t, test.program, append(test.args, path)...)
			wiped(t, path, test.wipe)
			content := probed(t, path)
			assert.False(t, content.Blank)
			assert.False(t, content.IsFileSystem)
			assert.Contains(t, content.Type, test.want)
		})
	}
}

// mkfs.xfs has other numbers of groups for devices of several disks.
func TestTheBeginningsOfTheGroupsOfAnXFSAreLookedAt(t *testing.T) {
	const size = 10<<30 + 12288
	for groups := int64(2); groups <= 32; groups *= 2 {
		blocks := int64(size / 4096)
		group := (blocks + groups - 1) / groups * 4096
		path := image(t, size)
		write(t, path, "XFSB", (groups-1)*group)
		assert.Contains(t, probed(t, path).Type, "xfs allocation group", groups)
	}
}

func TestTwoFileSystemsAtOnceAreNone(t *testing.T) {
	path := image(t, roomy)
	run(t, "mkfs.btrfs", "-q", path)
	write(t, path, "\x10\x20\xf5\xf2", 1024)
	assert.Equal(t, Content{Type: "both btrfs and f2fs"}, probed(t, path))
}

func TestWhatAFileHoldsIsNotTakenForTheDevice(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs"} {
		path := image(t, roomy)
		run(t, "mkfs."+fsType, "-q", path)
		write(t, path, "\xfc\x4e\x2b\xa9\x01\x00\x00\x00", roomy-8192)
		write(t, path, "\xfc\x4e\x2b\xa9", roomy-64<<10)
		write(t, path, "\x83\x74\x02\x6d", roomy-4096+60)
		assert.Equal(t, fsType, probed(t, path).Type)
		write(t, path, "_BHRfS_M", 64<<10+0x40)
		assert.Equal(t, fsType, probed(t, path).Type)
	}
}

func TestAMemberOfARAIDIsNotTheFileSystemThatShowsThrough(t *testing.T) {
	path := image(t, 64*mebi)
	run(t, "mkfs.ext4", "-q", path, "65472") // KiB: RAID keeps the last 64 for itself
	assert.Equal(t, "ext4", probed(t, path).Type)
	write(t, path, "\xfc\x4e\x2b\xa9", 64*mebi-64<<10)
	assert.Equal(t, Content{Type: "Linux RAID member"}, probed(t, path))
}

func TestWhatCannotBeReadIsNotKnown(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	for name, test := range map[string]struct{ path, want string }{
		"a directory":        {dir, "neither a block device nor a regular file"},
		"an empty file":      {image(t, 0), "its size is 0"},
		"nothing":            {filepath.Join(dir, "absent"), "no such file"},
		"a pipe":             {pipe, "neither a block device nor a regular file"},
		"a character device": {"/dev/null", "neither a block device nor a regular file"},
		"a relative path":    {"--help", "not absolute"},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := Probe(t.Context(), test.path)
			assert.ErrorContains(t, err, test.want)
			assert.ErrorContains(t, err, test.path)
			assert.Zero(t, content)
		})
	}
	t.Run("a device whose file was cut", func(t *testing.T) {
		for _, left := range []int64{0, 4096, 32 * mebi, 64*mebi - 4096} {
			path := image(t, 64*mebi)
			device := loop(t, path)
			require.Equal(t, Content{Blank: true}, probed(t, device))
			require.NoError(t, os.Truncate(path, left))
			content, err := Probe(t.Context(), device)
			assert.ErrorIs(t, err, unix.EIO, left)
			assert.Zero(t, content)
		}
	})
	t.Run("a device whose file is gone", func(t *testing.T) {
		path := image(t, 64*mebi)
		device := loop(t, path)
		require.NoError(t, os.Remove(path))
		_, err := Probe(t.Context(), device)
		assert.ErrorContains(t, err, "cannot be seen")
		require.NoError(t, os.WriteFile(path, make([]byte, 64*mebi), 0o600))
		_, err = Probe(t.Context(), device)
		assert.ErrorContains(t, err, "cannot be seen")
	})
	t.Run("ctx has ended", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := Probe(ctx, image(t, mebi))
		assert.ErrorIs(t, err, context.Canceled)
	})
}

func TestADeviceWithLargeSectorsIsRead(t *testing.T) {
	path := image(t, 16*mebi+4096)
	if os.Geteuid() != 0 {
		t.Skip("needs root, to attach a loop device")
	}
	device := run(t, "losetup", "--find", "--show", "--sector-size", "4096", path)
	t.Cleanup(func() { run(t, "losetup", "--detach", device) })
	assert.True(t, probed(t, device).Blank)
	write(t, path, "x", 16*mebi+4095)
	assert.Equal(t, Content{Type: fmt.Sprintf("data of unknown kind at offset %d", 16*mebi+4095)}, probed(t, device))
}

// Others may have written to what the kernel still has cached for the device.
func TestTheDeviceIsReadAndNotTheCache(t *testing.T) {
	path := image(t, 16*mebi)
	device := loop(t, path)
	f, err := os.Open(device) // keeps the cache
	require.NoError(t, err)
	defer f.Close()
	_, err = f.Read(make([]byte, 64<<10))
	require.NoError(t, err)
	write(t, path, "x", 9)
	assert.Equal(t, Content{Type: "data of unknown kind at offset 9"}, probed(t, device))
}

func TestTheSizeIsThatOfTheDevice(t *testing.T) {
	path := image(t, 5*mebi+512)
	size, err := Size(path)
	require.NoError(t, err)
	assert.EqualValues(t, 5*mebi+512, size)
	size, err = Size(loop(t, path))
	require.NoError(t, err)
	assert.EqualValues(t, 5*mebi+512, size)
	_, err = Size(t.TempDir())
	assert.ErrorContains(t, err, "neither")
}

func BenchmarkProbe(b *testing.B) {
	for name, prepare := range map[string]func(path string) string{
		"ext4 in a file":              func(path string) string { run(b, "mkfs.ext4", "-q", path); return path },
		"ext4 on a device":            func(path string) string { run(b, "mkfs.ext4", "-q", path); return loop(b, path) },
		"a blank device":              func(path string) string { return loop(b, path) },
		"a file with nothing in it":   func(path string) string { return path },
		"a file with a block of zero": func(path string) string { write(b, path, "\x00", 4096); return path },
	} {
		b.Run(name, func(b *testing.B) {
			path := prepare(image(b, 1<<30))
			for b.Loop() {
				if _, err := Probe(b.Context(), path); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestDataAnywhereOnADeviceThatIsReadAsAWholeIsSeen(t *testing.T) {
	path := image(t, 64<<20)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	const at = 9<<20 + 12345 // where nothing has a copy of anything
	_, err = f.WriteAt([]byte{1}, at)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	content, err := Probe(t.Context(), path)
	require.NoError(t, err)
	assert.Equal(t, Content{Type: fmt.Sprintf("data of unknown kind at offset %d", at)}, content)
}
