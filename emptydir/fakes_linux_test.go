// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/mount-utils"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

func TestWhatAHostsMounterIsAskedFor(t *testing.T) {
	pod := newPod(asking("hugepages-2Mi"))
	limit := ptr.To(resource.MustParse("3Mi"))
	for name, test := range map[string]struct {
		source  v1.EmptyDirVolumeSource
		options Options
		fsGroup *int64
		want    []mount.MountPoint // without the paths
	}{
		"a directory": {want: nil},
		"a directory with options": {
			options: Options{NoExec: true, NoSUID: true, NoDev: true},
			want:    []mount.MountPoint{{Opts: []string{"bind", "noexec", "nosuid", "nodev"}}},
		},
		"memory": {
			source: v1.EmptyDirVolumeSource{Medium: "Memory"},
			want:   []mount.MountPoint{{Device: "tmpfs", Type: "tmpfs", Opts: []string{"mode=01777", "noswap"}}},
		},
		"memory with everything": {
			source:  v1.EmptyDirVolumeSource{Medium: "Memory", SizeLimit: limit, Mode: ptr.To[int32](0o750)},
			options: Options{NoExec: true},
			fsGroup: ptr.To[int64](0),
			want: []mount.MountPoint{{
				Device: "tmpfs", Type: "tmpfs", Opts: []string{"noexec", "mode=02770", "gid=0", "size=3145728", "noswap"},
			}},
		},
		"huge pages": {
			source: v1.EmptyDirVolumeSource{Medium: "HugePages"},
			want:   []mount.MountPoint{{Device: "hugetlbfs", Type: "hugetlbfs", Opts: []string{"mode=0777", "pagesize=2097152"}}},
		},
		"huge pages with everything": {
			source:  v1.EmptyDirVolumeSource{Medium: "HugePages-2Mi", SizeLimit: limit, Mode: ptr.To[int32](0o750)},
			options: Options{NoDev: true},
			want: []mount.MountPoint{{
				Device: "hugetlbfs", Type: "hugetlbfs", Opts: []string{"nodev", "mode=0750", "size=4194304", "pagesize=2097152"},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			fake := mount.NewFakeMounter(nil)
			f := newFixtureWith(t, test.source, pod, fake)
			f.restart(test.options)
			for range 2 {
				require.NoError(t, f.setUpWith(volume.SetUpOptions{FSGroup: test.fsGroup}))
				f.wantPresence(volume.Present)
				got := slices.Clone(fake.MountPoints)
				for i := range got {
					assert.Equal(t, f.path, got[i].Path)
					got[i].Path = ""
					if got[i].Device == f.path {
						got[i].Device = ""
					}
				}
				assert.Equal(t, test.want, got)
			}
			f.tearDown()
			assert.Empty(t, fake.MountPoints)
		})
	}
}

func TestASetgidHugetlbfsIsMadeBesideItsPlace(t *testing.T) {
	fake := mount.NewFakeMounter(nil)
	f := newFixtureWith(t, v1.EmptyDirVolumeSource{Medium: "HugePages"}, newPod(asking("hugepages-2Mi")), fake)
	require.NoError(t, f.setUpWith(volume.SetUpOptions{FSGroup: ptr.To[int64](54321)}))
	assert.Equal(t, []mount.FakeAction{
		{Action: "mount", Target: hiddenPath(f.path), Source: "hugetlbfs", FSType: "hugetlbfs"},
		{Action: "mount", Target: f.path, Source: "hugetlbfs", FSType: "hugetlbfs"},
		{Action: "unmount", Target: hiddenPath(f.path)},
	}, fake.GetLog())
	f.wantPresence(volume.Present)
	f.tearDown()
}

var errInjected = errors.New("injected")

func TestNothingIsDoneWhenItIsNotKnownWhatIsThere(t *testing.T) {
	for _, medium := range []v1.StorageMedium{"", "Memory"} {
		t.Run(string(medium), func(t *testing.T) {
			fake := mount.NewFakeMounter(nil)
			f := newFixtureWith(t, v1.EmptyDirVolumeSource{Medium: medium}, newPod(), fake)
			f.setUp()
			file := f.write(f.path, "file")
			fake.ResetLog()
			fake.MountCheckErrors = map[string]error{f.path: errInjected}
			require.ErrorIs(t, f.trySetUp(), errInjected)
			require.ErrorIs(t, f.tryTearDown(), errInjected)
			f.wantPresence(volume.Unknown)
			assert.FileExists(t, file)
			assert.Empty(t, fake.GetLog())
			fake.MountCheckErrors = nil
			f.wantPresence(volume.Present)
			f.tearDown()
		})
	}
}

func TestNothingIsRemovedWhenUnmountingFails(t *testing.T) {
	fake := mount.NewFakeMounter(nil)
	f := newFixtureWith(t, v1.EmptyDirVolumeSource{Medium: "Memory"}, newPod(), fake)
	f.setUp()
	file := f.write(f.path, "file")
	fake.UnmountFunc = func(string) error { return errInjected }
	require.ErrorIs(t, f.tryTearDown(), errInjected)
	assert.FileExists(t, file)
	fake.UnmountFunc = nil
	f.tearDown()
}

func TestAMounterThatNeverUnmountsIsGivenUpOn(t *testing.T) {
	begin(t)
	f := newFixture(t, v1.EmptyDirVolumeSource{Medium: "Memory"})
	f.setUp()
	file := f.write(f.path, "file")
	real := f.host.Mounter
	f.host.Mounter = idleMounter{real}
	f.restart(Options{})
	err := f.tryTearDown()
	require.ErrorIs(t, err, volume.ErrInUse)
	assert.ErrorContains(t, err, f.path)
	assert.FileExists(t, file)
	f.host.Mounter = real
	f.restart(Options{})
	f.tearDown()
}

// idleMounter claims to unmount.
type idleMounter struct{ mount.Interface }

func (idleMounter) Unmount(string) error { return nil }

// refuseNoSwap fails mounts with noswap.
func refuseNoSwap(err error) volumetest.MountHook {
	return func(call volumetest.MountCall) error {
		if slices.Contains(call.Options, "noswap") {
			return err
		}
		return nil
	}
}

func TestNoSwapIsTriedUntilTheKernelRefusesIt(t *testing.T) {
	for name, refusal := range map[string]error{
		"by its number":        unix.EINVAL,
		"by a mount program":   errors.New("mount: bad option"),
		"by a number, wrapped": &mountError{unix.EINVAL},
	} {
		t.Run(name, func(t *testing.T) {
			faulty := volumetest.NewFaultyMounter(mount.NewFakeMounter(nil))
			faulty.Inject(refuseNoSwap(refusal), nil)
			f := newFixtureWith(t, v1.EmptyDirVolumeSource{Medium: "Memory"}, newPod(), faulty)
			f.setUp()
			require.Len(t, faulty.Calls(), 2)
			assert.NotContains(t, faulty.Calls()[1].Options, "noswap")
			f.tearDown()

			faulty.Inject(refuseNoSwap(refusal), nil)
			f.setUp()
			assert.Len(t, faulty.Calls(), 1, "the plugin remembers it")
			f.tearDown()

			faulty.Inject(nil, nil)
			f.restart(Options{})
			f.setUp()
			require.Len(t, faulty.Calls(), 1)
			assert.Contains(t, faulty.Calls()[0].Options, "noswap", "another plugin asks again")
			f.tearDown()
		})
	}
}

type mountError struct{ error }

func (e *mountError) Unwrap() error { return e.error }

func TestOtherErrorsAreNotTakenForARefusalOfNoSwap(t *testing.T) {
	for name, failure := range map[string]error{
		"no room":           unix.ENOMEM,
		"not allowed":       unix.EPERM,
		"outcome uncertain": volume.Errorf(volume.ErrUncertain, "timeout"),
	} {
		t.Run(name, func(t *testing.T) {
			faulty := volumetest.NewFaultyMounter(mount.NewFakeMounter(nil))
			faulty.Inject(refuseNoSwap(failure), nil)
			f := newFixtureWith(t, v1.EmptyDirVolumeSource{Medium: "Memory"}, newPod(), faulty)
			require.ErrorIs(t, f.trySetUp(), failure)
			assert.Len(t, faulty.Calls(), 1)
			faulty.Inject(nil, nil)
			f.setUp()
			assert.Contains(t, faulty.Calls()[0].Options, "noswap")
			f.tearDown()
		})
	}
}

func TestAFailureOfTheSecondTryIsNotTakenForARefusalOfNoSwap(t *testing.T) {
	faulty := volumetest.NewFaultyMounter(mount.NewFakeMounter(nil))
	faulty.Inject(func(volumetest.MountCall) error { return unix.EINVAL }, nil)
	f := newFixtureWith(t, v1.EmptyDirVolumeSource{Medium: "Memory"}, newPod(), faulty)
	require.ErrorIs(t, f.trySetUp(), unix.EINVAL)
	assert.False(t, f.plugin.tmpfs.NoSwapRefused())
	f.tearDown()
}

func TestAVolumeThatIsThereAlthoughItsHiddenMountStaysIsUncertain(t *testing.T) {
	begin(t)
	f := newFixture(t, v1.EmptyDirVolumeSource{Medium: "HugePages"})
	faulty := volumetest.NewFaultyMounter(f.host.Mounter)
	f.host.Mounter = faulty
	f.restart(Options{})
	faulty.Inject(func(call volumetest.MountCall) error {
		if call.Unmount {
			return errInjected
		}
		return nil
	}, nil)
	require.ErrorIs(t, f.setUpWith(volume.SetUpOptions{FSGroup: ptr.To[int64](54321)}), volume.ErrUncertain)
	f.wantPresence(volume.Present)
	faulty.Inject(nil, nil)
	f.tearDown()
}
