// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/plugins"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volumemanager"
)

// diskImage makes a file that stands for a device.
func diskImage(t *testing.T, size int64) string {
	t.Helper()
	mountns.RequirePrivate(t)
	path := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, size))
	return path
}

// deviceHost is a host whose claim data is the device, in the mode.
func deviceHost(root, device string, mode v1.PersistentVolumeMode) (volume.Host, *claims) {
	data, pv := claimNamed("data", "pv-1"), localVolume("pv-1", device)
	data.Spec.VolumeMode, pv.Spec.VolumeMode = &mode, &mode
	data.Spec.Resources.Requests = nil
	source := newClaims(data, pv)
	return volume.Host{Root: root, Claims: source}, source
}

// loopDevicesBelow lists the loop devices that are attached to what is below dir.
func loopDevicesBelow(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	require.NoError(t, err)
	var found []string
	for _, path := range paths {
		if file, err := os.ReadFile(path); err == nil && strings.HasPrefix(string(file), dir) {
			found = append(found, strings.TrimSpace(string(file)))
		}
	}
	return found
}

func podWithDevice(name string) *v1.Pod {
	p := pod(name, claim("disk", "data"))
	p.Spec.Containers[0].VolumeMounts = nil
	p.Spec.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "disk", DevicePath: "/dev/xvda"}}
	return p
}

func TestARawDeviceReachesAContainer(t *testing.T) {
	disk := diskImage(t, 1<<20)
	host, _ := deviceHost(t.TempDir(), disk, v1.PersistentVolumeBlock)
	b := openRigWith(t, volumemanager.Options{}, host, plugins.Default()...)
	status, err := b.SetUpPod(t.Context(), podWithDevice("db"))
	require.NoError(t, err)
	require.Len(t, status.Containers[0].Devices, 1)
	devices, err := b.ContainerDevices(t.Context(), "uid-db", status.Containers[0].Name)
	require.NoError(t, err)
	assert.Equal(t, status.Containers[0].Devices, devices)
	assert.Equal(t, filepath.Join(host.Root, "pods/uid-db/volumeDevices/kubernetes.io~local-volume/pv-1"), devices[0].Source)
	assert.Equal(t, "/dev/xvda", devices[0].Destination)

	device, rule, err := devices[0].OCI()
	require.NoError(t, err)
	var stat unix.Stat_t
	require.NoError(t, unix.Stat(devices[0].Source, &stat))
	assert.Equal(t, []int64{int64(unix.Major(stat.Rdev)), int64(unix.Minor(stat.Rdev))}, []int64{device.Major, device.Minor})
	assert.Equal(t, []int64{device.Major, device.Minor}, []int64{*rule.Major, *rule.Minor})
	assert.Equal(t, "mrw", rule.Access)
	require.NoError(t, os.WriteFile(devices[0].Source, []byte("written"), 0o600))
	require.NoError(t, b.TearDownPod(t.Context(), "uid-db"))
	content, err := os.ReadFile(disk)
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(content), "written"))
	b.requireEmpty()
	assert.Empty(t, loopDevicesBelow(t, filepath.Dir(disk)))
	assert.Empty(t, loopDevicesBelow(t, host.Root))
}

// TestMappingAndUnmappingLeavesNothing maps a device for two pods again and again, with a new manager now and then, and with the
// device's file in every state.
func TestMappingAndUnmappingLeavesNothing(t *testing.T) {
	disk, root := diskImage(t, 1<<20), t.TempDir()
	host, _ := deviceHost(root, disk, v1.PersistentVolumeBlock)
	b := openRigWith(t, volumemanager.Options{}, host, plugins.Default()...)
	for round := range 100 {
		for _, name := range []string{"a", "b"} {
			_, err := b.SetUpPod(t.Context(), podWithDevice(name))
			require.NoError(t, err)
		}
		if round%10 == 9 {
			require.NoError(t, b.Close())
			b = openRigWith(t, volumemanager.Options{}, host, plugins.Default()...)
		}
		switch round % 4 {
		case 1:
			require.NoError(t, os.Remove(disk))
		case 2:
			require.NoError(t, os.Truncate(disk, 0))
		}
		for _, name := range []string{"a", "b"} {
			require.NoError(t, b.TearDownPod(t.Context(), types.UID("uid-"+name)), "round %d", round)
		}
		require.NoError(t, os.WriteFile(disk, nil, 0o600))
		require.NoError(t, os.Truncate(disk, 1<<20))
	}
	b.requireEmpty()
	assert.NoDirExists(t, filepath.Join(root, "plugins"))
	assert.Empty(t, loopDevicesBelow(t, filepath.Dir(disk)))
	assert.Empty(t, loopDevicesBelow(t, root))
}

func TestARawDeviceThatSomebodyTakesAwayIsMappedAgain(t *testing.T) {
	disk := diskImage(t, 1<<20)
	host, _ := deviceHost(t.TempDir(), disk, v1.PersistentVolumeBlock)
	b := openRigWith(t, volumemanager.Options{}, host, plugins.Default()...)
	_, err := b.SetUpPod(t.Context(), podWithDevice("db"))
	require.NoError(t, err)
	link := filepath.Join(host.Root, "pods/uid-db/volumeDevices/kubernetes.io~local-volume/pv-1")
	require.NoError(t, os.Remove(link))
	_, err = b.ContainerDevices(t.Context(), "uid-db", "main")
	require.ErrorContains(t, err, "somebody has taken it away")
	_, err = b.SetUpPod(t.Context(), podWithDevice("db"))
	require.NoError(t, err)
	assert.FileExists(t, link)
	require.NoError(t, b.TearDownPod(t.Context(), "uid-db"))
}

func TestARecordThatIsDamagedDoesNotKeepARawDevice(t *testing.T) {
	disk := diskImage(t, 1<<20)
	host, _ := deviceHost(t.TempDir(), disk, v1.PersistentVolumeBlock)
	b := openRigWith(t, volumemanager.Options{}, host, plugins.Default()...)
	_, err := b.SetUpPod(t.Context(), podWithDevice("db"))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(b.recordPath("uid-db"), 0))
	require.NoError(t, b.TearDownPod(t.Context(), "uid-db"))
	b.requireEmpty()
	assert.Empty(t, loopDevicesBelow(t, filepath.Dir(disk)))
}

func TestADeviceWhoseRecordIsGoneIsTakenAway(t *testing.T) {
	for _, mode := range []v1.PersistentVolumeMode{v1.PersistentVolumeFilesystem, v1.PersistentVolumeBlock} {
		t.Run(string(mode), func(t *testing.T) {
			disk := diskImage(t, 64<<20)
			host, _ := deviceHost(t.TempDir(), disk, mode)
			b := openRigWith(t, volumemanager.Options{}, host, plugins.Default()...)
			var names []types.UID
			for _, name := range []string{"a", "b"} {
				p := podWithDevice(name)
				if mode == v1.PersistentVolumeFilesystem {
					p = pod(name, claim("disk", "data"))
				}
				_, err := b.SetUpPod(t.Context(), p)
				require.NoError(t, err)
				names = append(names, p.UID)
			}
			require.NoError(t, os.RemoveAll(filepath.Join(host.Root, "plugins/volumekit.io")))
			require.NoError(t, b.TearDownPod(t.Context(), names[0]))
			assert.Len(t, loopDevicesBelow(t, filepath.Dir(disk)), 1, "the other pod has it")
			require.NoError(t, os.RemoveAll(filepath.Join(host.Root, "plugins/volumekit.io")))
			require.NoError(t, b.TearDownPod(t.Context(), names[1]))
			b.requireEmpty()
			assert.NoDirExists(t, filepath.Join(host.Root, "plugins"))
			assert.Empty(t, loopDevicesBelow(t, filepath.Dir(disk)))
		})
	}
}

func TestAVolumeIsMountedOrMappedAndNotBoth(t *testing.T) {
	disk := diskImage(t, 64<<20)
	root := t.TempDir()
	host, source := deviceHost(root, disk, v1.PersistentVolumeFilesystem)
	b := openRigWith(t, volumemanager.Options{}, host, plugins.Default()...)
	mounted := pod("files", claim("disk", "data"))
	_, err := b.SetUpPod(t.Context(), mounted)
	require.NoError(t, err)

	raw, pv := claimNamed("data", "pv-1"), localVolume("pv-1", disk)
	raw.Spec.VolumeMode, pv.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock), ptr.To(v1.PersistentVolumeBlock)
	source.set(raw, pv)
	_, err = b.SetUpPod(t.Context(), podWithDevice("raw"))
	require.ErrorIs(t, err, volume.ErrInUse)
	assert.ErrorContains(t, err, "in another volumeMode")
	require.NoError(t, b.TearDownPod(t.Context(), "uid-raw"))
	require.NoError(t, b.TearDownPod(t.Context(), "uid-files"))
	b.requireEmpty()
}

func TestADeviceThatGrewIsGrownOnTheNode(t *testing.T) {
	disk := diskImage(t, 320<<20)
	host, _ := deviceHost(t.TempDir(), disk, v1.PersistentVolumeFilesystem)
	b := openRigWith(t, volumemanager.Options{}, host, plugins.Default()...)
	pv := localVolume("pv-1", disk)
	pv.Spec.Local.FSType = ptr.To("xfs")
	host.Claims.(*claims).set(claimNamed("data", "pv-1"), pv)
	status, err := b.SetUpPod(t.Context(), pod("db", claim("disk", "data")))
	require.NoError(t, err)
	blocks := func() uint64 {
		var stat syscall.Statfs_t
		require.NoError(t, syscall.Statfs(status.Volumes[0].Path, &stat))
		return stat.Blocks * uint64(stat.Bsize) >> 20
	}
	before := blocks()
	require.NoError(t, os.Truncate(disk, 512<<20))
	pv = pv.DeepCopy()
	pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("512Mi")}
	size, err := b.ExpandVolume(t.Context(), pv)
	require.NoError(t, err)
	assert.Equal(t, "512Mi", size.String())
	assert.Greater(t, blocks(), before+150, fmt.Sprint(before))
	pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	_, err = b.ExpandVolume(t.Context(), pv)
	require.ErrorIs(t, err, volume.ErrInvalid, "the file is not that large")
	require.NoError(t, b.TearDownPod(t.Context(), "uid-db"))

	_, err = b.ExpandVolume(t.Context(), hostPathVolume("pv-2", "/tmp"))
	require.ErrorIs(t, err, volume.ErrNotSupported)
}

// TestAVolumeThatGrowsInTheAPIIsGrownWhileItIsInUse has the PersistentVolume grow while the manager runs, and once more while no
// manager does.
func TestAVolumeThatGrowsInTheAPIIsGrownWhileItIsInUse(t *testing.T) {
	disk := diskImage(t, 320<<20)
	host, source := deviceHost(t.TempDir(), disk, v1.PersistentVolumeFilesystem)
	grow := func(size string) {
		pv := localVolume("pv-1", disk)
		pv.Spec.Local.FSType = ptr.To("xfs")
		pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
		require.NoError(t, os.Truncate(disk, pv.Spec.Capacity.Storage().Value()))
		source.set(pv)
	}
	path := filepath.Join(host.Root, "pods/uid-db/volumes/kubernetes.io~local-volume/pv-1")
	mebibytes := func() uint64 {
		var stat syscall.Statfs_t
		require.NoError(t, syscall.Statfs(path, &stat))
		return stat.Blocks * uint64(stat.Bsize) >> 20
	}
	isExpanded := func(e volumemanager.Event) bool {
		require.NoError(t, e.Err)
		return e.Operation == volumemanager.OperationExpand
	}
	grow("320Mi")
	first := openRigWith(t, volumemanager.Options{}, host, plugins.Default()...)
	events := first.Events(t.Context(), 1000)
	stop := first.run()
	require.NoError(t, first.SetPod(t.Context(), pod("db", claim("disk", "data"))))
	first.requireReady("uid-db")
	small := mebibytes()
	grow("512Mi")
	next(t, events, isExpanded)
	medium := mebibytes()
	assert.Greater(t, medium, small+150)
	stop()
	require.NoError(t, first.Close())

	grow("640Mi")
	second := openRigWith(t, volumemanager.Options{}, host, plugins.Default()...)
	events = second.Events(t.Context(), 1000)
	second.run()
	require.NoError(t, second.SetPod(t.Context(), pod("db", claim("disk", "data"))))
	next(t, events, isExpanded)
	assert.Greater(t, mebibytes(), medium+100)
	require.NoError(t, second.RemovePod("uid-db"))
	next(t, events, isRemoved("uid-db"))
}

// TestAVolumeThatGrewBeforeItIsMountedIsGrownThen has a claim that still has the size of before.
func TestAVolumeThatGrewBeforeItIsMountedIsGrownThen(t *testing.T) {
	disk := diskImage(t, 320<<20)
	host, source := deviceHost(t.TempDir(), disk, v1.PersistentVolumeFilesystem)
	data, pv := claimNamed("data", "pv-1"), localVolume("pv-1", disk)
	data.Spec.Resources.Requests = nil
	pv.Spec.Local.FSType = ptr.To("xfs")
	pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("320Mi")}
	source.set(data, pv)
	b := openRigWith(t, volumemanager.Options{}, host, plugins.Default()...)
	_, err := b.SetUpPod(t.Context(), pod("db", claim("disk", "data")))
	require.NoError(t, err)
	require.NoError(t, b.TearDownPod(t.Context(), "uid-db"))

	require.NoError(t, os.Truncate(disk, 512<<20))
	pv = pv.DeepCopy()
	data.Status.Capacity = pv.Spec.Capacity
	pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("512Mi")}
	source.set(data, pv)
	status, err := b.SetUpPod(t.Context(), pod("db", claim("disk", "data")))
	require.NoError(t, err)
	var stat syscall.Statfs_t
	require.NoError(t, syscall.Statfs(status.Volumes[0].Path, &stat))
	assert.Greater(t, stat.Blocks*uint64(stat.Bsize)>>20, uint64(400))
	require.NoError(t, b.TearDownPod(t.Context(), "uid-db"))
}

func TestTheFilesOfADeviceAreGivenToThePodsFSGroup(t *testing.T) {
	disk := diskImage(t, 64<<20)
	host, _ := deviceHost(t.TempDir(), disk, v1.PersistentVolumeFilesystem)
	b := openRigWith(t, volumemanager.Options{}, host, plugins.Default()...)
	for _, group := range []int64{4321, 4322} {
		status, err := b.SetUpPod(t.Context(), withFSGroup(pod("db", claim("disk", "data")), group))
		require.NoError(t, err)
		file := filepath.Join(status.Volumes[0].Path, "file")
		_, err = os.Stat(file)
		if group == 4321 {
			require.NoError(t, os.WriteFile(file, nil, 0o600))
		} else {
			require.NoError(t, err, "it outlives its pod")
		}
		var stat syscall.Stat_t
		require.NoError(t, syscall.Stat(file, &stat))
		assert.EqualValues(t, group, stat.Gid)
		require.NoError(t, b.TearDownPod(t.Context(), "uid-db"))
	}
	b.requireEmpty()
}

func TestARawDeviceIsOnlyReadWhereverOneSaysSo(t *testing.T) {
	for _, pv := range []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadOnlyMany} {
		for _, readOnly := range []bool{false, true} {
			host, source := deviceHost(t.TempDir(), diskImage(t, 1<<20), v1.PersistentVolumeBlock)
			data, disk := source.claims["data"], source.volumes["pv-1"]
			data.Spec.AccessModes, disk.Spec.AccessModes = []v1.PersistentVolumeAccessMode{pv}, []v1.PersistentVolumeAccessMode{pv}
			b := openRigWith(t, volumemanager.Options{}, host, plugins.Default()...)
			p := podWithDevice("db")
			p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = readOnly
			status, err := b.SetUpPod(t.Context(), p)
			require.NoError(t, err)
			device := status.Containers[0].Devices[0]
			want := "mrw"
			if readOnly || pv == v1.ReadOnlyMany {
				want = "mr"
			}
			assert.Equal(t, want, device.Permissions(), "%s, claim read-only %v", pv, readOnly)
			if err := os.WriteFile(device.Source, []byte("x"), 0o600); pv == v1.ReadOnlyMany { // else it is for the container's runtime
				assert.ErrorIs(t, err, syscall.EPERM)
			}
			require.NoError(t, b.TearDownPod(t.Context(), "uid-db"))
		}
	}
}
