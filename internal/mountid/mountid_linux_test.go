// SPDX-License-Identifier: Apache-2.0

package mountid

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/mountns"
)

func TestMain(m *testing.M) { os.Exit(mountns.Main(m)) }

func begin(t testing.TB) {
	t.Helper()
	mountns.RequirePrivate(t)
	mountns.CheckNoMountsLeft(t)
}

func mountTmpfs(t testing.TB, dir, source string) {
	t.Helper()
	require.NoError(t, unix.Mount(source, dir, "tmpfs", 0, "size=64k"))
}

func unmount(t testing.TB, dir string) {
	t.Helper()
	require.NoError(t, unix.Unmount(dir, unix.UMOUNT_NOFOLLOW))
}

func identityOf(t testing.TB, path string) Identity {
	t.Helper()
	identity, err := Of(t.Context(), path)
	require.NoError(t, err)
	return identity
}

// needUnique skips the test where the kernel numbers mounts anew: before 6.8.
func needUnique(t *testing.T, identity Identity) {
	t.Helper()
	if !identity.Unique {
		t.Skip("needs Linux 6.8")
	}
}

func TestAMountIsItselfUntilItIsUnmounted(t *testing.T) {
	begin(t)
	dir := t.TempDir()
	bare := identityOf(t, dir)
	assert.False(t, bare.Root)
	assert.Empty(t, bare.Source)
	assert.NotEmpty(t, bare.Boot)
	assert.NotZero(t, bare.Namespace)

	mountTmpfs(t, dir, "first")
	first := identityOf(t, dir)
	assert.True(t, first.Root)
	assert.NoError(t, first.Check(identityOf(t, dir)))
	assert.ErrorIs(t, bare.Check(first), ErrCovered)
	require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	assert.NoError(t, first.Check(identityOf(t, dir)), "a remount leaves the mount")
	unmount(t, dir)
	assert.ErrorIs(t, first.Check(identityOf(t, dir)), ErrGone)
	require.NoError(t, os.Remove(dir))
	assert.ErrorIs(t, first.Check(identityOf(t, dir)), ErrGone)
	assert.ErrorIs(t, first.Check(identityOf(t, filepath.Join(dir, "below"))), ErrGone)
}

func TestAMountIsNotTheOneThatTookItsPlace(t *testing.T) {
	begin(t)
	dir := t.TempDir()
	mountTmpfs(t, dir, "first")
	first := identityOf(t, dir)
	needUnique(t, first)
	unmount(t, dir)
	mountTmpfs(t, dir, "second")
	defer unmount(t, dir)
	err := first.Check(identityOf(t, dir))
	require.ErrorIs(t, err, ErrAnother)
	if first.Source == "first" { // Linux 6.14; the type before
		assert.ErrorContains(t, err, "second (device")
	}
	assert.False(t, first.Exists())
}

func TestACoveredMountAndAMovedOneStillExist(t *testing.T) {
	begin(t)
	dir, elsewhere := t.TempDir(), t.TempDir()
	mountTmpfs(t, dir, "below")
	below := identityOf(t, dir)
	needUnique(t, below)
	assert.True(t, below.Exists())
	mountTmpfs(t, dir, "above")
	assert.ErrorIs(t, below.Check(identityOf(t, dir)), ErrAnother)
	assert.True(t, below.Exists())
	unmount(t, dir)
	assert.NoError(t, below.Check(identityOf(t, dir)))

	require.NoError(t, unix.Mount(dir, elsewhere, "", unix.MS_MOVE, ""))
	assert.ErrorIs(t, below.Check(identityOf(t, dir)), ErrGone)
	assert.NoError(t, below.Check(identityOf(t, elsewhere)))
	assert.True(t, below.Exists())

	file, err := os.Create(filepath.Join(elsewhere, "in use"))
	require.NoError(t, err)
	require.NoError(t, unix.Unmount(elsewhere, unix.MNT_DETACH))
	assert.False(t, below.Exists(), "what was unmounted lazily is in no namespace")
	require.NoError(t, file.Close())
}

func TestExistsOfAnotherBootOrNamespaceIsFalse(t *testing.T) {
	here := identityOf(t, "/")
	needUnique(t, here)
	require.True(t, here.Exists())
	for _, change := range []func(*Identity){
		func(i *Identity) { i.Boot = "another" },
		func(i *Identity) { i.Namespace++ },
		func(i *Identity) { i.Unique = false },
		func(i *Identity) { *i = Identity{} },
	} {
		other := here
		change(&other)
		assert.False(t, other.Exists(), "%+v", other)
	}
}

func TestADeadServerIsNotAsked(t *testing.T) {
	begin(t)
	dir := t.TempDir()
	kill := mountns.DeadFUSE(t, dir)
	identity := identityOf(t, dir)
	assert.True(t, identity.Root)
	kill()
	assert.NoError(t, identity.Check(identityOf(t, dir)))
	unmount(t, dir)
}

func TestADirectoryThatHangsOnTheWayIsNotWaitedFor(t *testing.T) {
	begin(t)
	dir := t.TempDir()
	kill := mountns.DeadFUSE(t, dir)
	ctx, end := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer end()
	_, err := Of(ctx, filepath.Join(dir, "below"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, dir)
	kill()
	// Who waited for an answer may not have noticed yet that there will be none.
	require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH))
}

func TestASymbolicLinkIsNotFollowed(t *testing.T) {
	begin(t)
	dir := t.TempDir()
	mountTmpfs(t, dir, "target")
	defer unmount(t, dir)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	assert.False(t, identityOf(t, link).Root)
}

// TestAnotherNamespaceIsTold has a process in a mount namespace of its own say what it sees.
func TestAnotherNamespaceIsTold(t *testing.T) {
	const child = "MOUNTID_TEST_NAMESPACE"
	if os.Getenv(child) != "" {
		_, _ = os.Stdout.WriteString("namespace " + strconv.FormatUint(namespace(), 10) + "\n")
		return
	}
	begin(t)
	self, err := os.Executable()
	require.NoError(t, err)
	run := func(attributes *syscall.SysProcAttr) string {
		cmd := exec.Command(self, "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), child+"=1")
		cmd.SysProcAttr = attributes
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	ours := "namespace " + strconv.FormatUint(namespace(), 10) + "\n"
	assert.Contains(t, run(nil), ours)
	assert.NotContains(t, run(&syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}), ours)
}

func BenchmarkOf(b *testing.B) {
	begin(b)
	dir := b.TempDir()
	mountTmpfs(b, dir, "tmpfs")
	defer unmount(b, dir)
	ctx, end := context.WithCancel(b.Context())
	defer end()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Of(ctx, dir); err != nil {
			b.Fatal(err)
		}
	}
}
