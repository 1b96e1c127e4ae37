// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volumemanager"
)

// deviceRecords are the files in which devices are recorded.
func deviceRecords(t *testing.T, root string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "plugins/volumekit.io/devices/*"))
	require.NoError(t, err)
	return paths
}

func TestTheFirstPodAttachesAndMountsTheDeviceAndTheLastOneTakesItAway(t *testing.T) {
	r := newRack()
	b := openDiskRig(t, t.TempDir(), r)
	_, err := b.SetUpPod(t.Context(), pod("first", claim("data", "data")))
	require.NoError(t, err)
	assert.Equal(t, []string{"attach sda to here", "wait for sda in slot of sda", "mount /dev/sda", "set up pv-1 for uid-first"}, r.take())

	_, err = b.SetUpPod(t.Context(), pod("second", claim("data", "data")))
	require.NoError(t, err)
	assert.Equal(t, []string{"mount /dev/sda", "set up pv-1 for uid-second"}, r.take())

	require.NoError(t, b.TearDownPod(t.Context(), "uid-first"))
	assert.Equal(t, []string{"tear down pv-1 for uid-first"}, r.take())

	require.NoError(t, b.TearDownPod(t.Context(), "uid-second"))
	assert.Equal(t, []string{"tear down pv-1 for uid-second", "unmount pv-1", "detach sda from here"}, r.take())
	b.requireEmpty()
	assert.NoDirExists(t, filepath.Join(b.root, "plugins"))

	_, err = b.SetUpPod(t.Context(), pod("third", claim("data", "data")))
	require.NoError(t, err)
	assert.Contains(t, r.take(), "attach sda to here", "what has been detached is attached again")
	require.NoError(t, b.TearDownPod(t.Context(), "uid-third"))
}

func TestTheLastPodTakesAwayADeviceOfAnEarlierManager(t *testing.T) {
	r, root := newRack(), t.TempDir()
	first := openDiskRig(t, root, r)
	for _, name := range []string{"a", "b"} {
		_, err := first.SetUpPod(t.Context(), pod(name, claim("data", "data")))
		require.NoError(t, err)
	}
	require.NoError(t, first.TearDownPod(t.Context(), "uid-a"))
	require.NoError(t, first.Close())
	r.take()

	second := openDiskRig(t, root, r)
	_, err := second.SetUpPod(t.Context(), pod("c", claim("data", "data")))
	require.NoError(t, err)
	require.NoError(t, second.TearDownPod(t.Context(), "uid-b"))
	assert.False(t, r.isEmpty())
	require.NoError(t, second.TearDownPod(t.Context(), "uid-c"))
	assert.True(t, r.isEmpty())
	second.requireEmpty()
}

func TestADeviceThatMayHaveBeenAttachedIsDetached(t *testing.T) {
	r := newRack()
	r.fault = func(step string) error {
		if step == "after attach sda to here" {
			return volume.Errorf(volume.ErrUncertain, "no answer")
		}
		return nil
	}
	b := openDiskRig(t, t.TempDir(), r)
	_, err := b.SetUpPod(t.Context(), pod("db", claim("data", "data")))
	require.ErrorIs(t, err, volume.ErrUncertain)
	assert.ErrorContains(t, err, `attach device "sda" of plugin test/disk: no answer`)
	require.NoError(t, b.TearDownPod(t.Context(), "uid-db"))
	assert.True(t, r.isEmpty())
	b.requireEmpty()
}

// TestADeviceIsTakenAwayAfterACrashAtAnyStep has each step fail, before or after it was done, and everything that comes after it as
// in a process that was killed. A new manager then tears the pod down, or sets it up and tears it down.
func TestADeviceIsTakenAwayAfterACrashAtAnyStep(t *testing.T) {
	killed := errors.New("killed")
	for _, again := range []bool{false, true} {
		for at := 1; ; at++ {
			r, root := newRack(), t.TempDir()
			n := 0
			r.fault = func(string) error {
				if n++; n >= at {
					return killed
				}
				return nil
			}
			first := openDiskRig(t, root, r)
			_, err := first.SetUpPod(t.Context(), pod("db", claim("data", "data")))
			if err == nil {
				err = first.TearDownPod(t.Context(), "uid-db")
			}
			require.NoError(t, first.Close())
			r.fault = nil
			second := openDiskRig(t, root, r)
			if again {
				if _, err := second.SetUpPod(t.Context(), pod("db", claim("data", "data"))); err != nil {
					require.ErrorIs(t, err, volume.ErrInUse, "step %d", at)
				}
			}
			require.NoError(t, second.TearDownPod(t.Context(), "uid-db"), "step %d", at)
			require.True(t, r.isEmpty(), "step %d", at)
			second.requireEmpty()
			require.NoDirExists(t, filepath.Join(root, "plugins"), "step %d", at)
			require.NoError(t, second.Close())
			if err == nil {
				require.Greater(t, at, 12)
				break
			}
			require.ErrorIs(t, err, killed)
		}
	}
}

func TestADeviceThatIsMountedElsewhereStays(t *testing.T) {
	r := newRack()
	b := openDiskRig(t, t.TempDir(), r)
	_, err := b.SetUpPod(t.Context(), pod("db", claim("data", "data")))
	require.NoError(t, err)
	r.elsewhere = []string{"/backup"}
	err = b.TearDownPod(t.Context(), "uid-db")
	require.ErrorIs(t, err, volume.ErrInUse)
	assert.ErrorContains(t, err, "is mounted at /backup too, so it stays: unmount that")
	assert.False(t, r.isEmpty())
	r.elsewhere = nil
	require.NoError(t, b.TearDownPod(t.Context(), "uid-db"))
	assert.True(t, r.isEmpty())
	b.requireEmpty()
}

func TestDamagedRecordsDoNotKeepADeviceFromBeingTakenAway(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, b *rig, path string){
		"the device's is empty": func(t *testing.T, _ *rig, path string) { require.NoError(t, os.Truncate(path, 0)) },
		"the device's is another's": func(t *testing.T, _ *rig, path string) {
			require.NoError(t, os.WriteFile(path, []byte(`{"version":1,"content":{"plugin":"test/disk","device":"sdb","volume":"pv-1","users":[]}}`), 0o600))
		},
		"the pod's is empty": func(t *testing.T, b *rig, _ string) { require.NoError(t, os.Truncate(b.recordPath("uid-db"), 0)) },
		"neither can be understood": func(t *testing.T, b *rig, path string) {
			require.NoError(t, os.Truncate(path, 5))
			require.NoError(t, os.Truncate(b.recordPath("uid-db"), 5))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, root := newRack(), t.TempDir()
			first := openDiskRig(t, root, r)
			_, err := first.SetUpPod(t.Context(), pod("db", claim("data", "data")))
			require.NoError(t, err)
			require.NoError(t, first.Close())
			records := deviceRecords(t, root)
			require.Len(t, records, 1)
			damage(t, first, records[0])

			second := openDiskRig(t, root, r)
			err = second.TearDownPod(t.Context(), "uid-db")
			if name == "neither can be understood" {
				require.NoError(t, err)
				assert.ErrorContains(t, second.ReleaseDevices(t.Context()), "damaged record "+records[0])
				return
			}
			require.NoError(t, err)
			assert.True(t, r.isEmpty())
			second.requireEmpty()
		})
	}
}

func TestADeviceIsTakenAwayOfPodsWhoseDirectoriesAreGone(t *testing.T) {
	r, root := newRack(), t.TempDir()
	first := openDiskRig(t, root, r)
	_, err := first.SetUpPod(t.Context(), pod("db", claim("data", "data")))
	require.NoError(t, err)
	require.NoError(t, first.Close())
	require.NoError(t, os.RemoveAll(filepath.Join(root, "pods")))

	second := openDiskRig(t, root, r)
	require.NoError(t, second.ReleaseDevices(t.Context()))
	assert.True(t, r.isEmpty())
	second.requireEmpty()
	assert.NoDirExists(t, filepath.Join(root, "plugins"))
}

func TestManyPodsShareADeviceAtOnce(t *testing.T) {
	const pods = 50
	r := newRack()
	b := openDiskRig(t, t.TempDir(), r)
	b.run()
	var wg sync.WaitGroup
	for i := range pods {
		wg.Go(func() {
			name := fmt.Sprint("p", i)
			uid := types.UID("uid-" + name)
			for range 3 {
				assert.NoError(t, b.SetPod(t.Context(), pod(name, claim("data", "data"))))
				_, err := b.WaitForPod(t.Context(), uid)
				assert.NoError(t, err)
				events := b.Events(t.Context(), 10000)
				assert.NoError(t, b.RemovePod(uid))
				next(t, events, isRemoved(uid))
			}
		})
	}
	wg.Wait()
	assert.True(t, r.isEmpty())
	b.requireEmpty()
	assert.NoDirExists(t, filepath.Join(b.root, "plugins"))
}

func TestAVolumeForOnePodIsGivenToOnePod(t *testing.T) {
	pv := localVolume("pv-1", "sda")
	pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	data := claimNamed("data", "pv-1")
	data.Spec.AccessModes = pv.Spec.AccessModes
	host := volume.Host{Root: t.TempDir(), Claims: newClaims(data, pv)}
	b := openRigWith(t, volumemanager.Options{}, host, newDiskPlugin(newRack()))
	events := b.Events(t.Context(), 1000)
	b.run()
	require.NoError(t, b.SetPod(t.Context(), pod("first", claim("data", "data"))))
	b.requireReady("uid-first")
	require.NoError(t, b.SetPod(t.Context(), pod("second", claim("data", "data"))))
	kept := next(t, events, hasFailed("data", volumemanager.OperationSetUp))
	require.ErrorIs(t, kept.Err, volume.ErrInUse)
	assert.ErrorContains(t, kept.Err, "pod default/first uses it, and its access mode is ReadWriteOncePod")
	require.NoError(t, b.RemovePod("uid-first"))
	b.requireReady("uid-second")
}
