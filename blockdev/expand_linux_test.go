// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volumekit/volumekit/internal/filesystem"
	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
)

func (w *workshop) expand(t *testing.T, pv *v1.PersistentVolume, size string) (volume.ExpandResult, error) {
	t.Helper()
	expander, err := w.plugin.NewExpander()
	require.NoError(t, err)
	return expander.Expand(t.Context(), volume.NewSpecFromPersistentVolume(pv, false), resource.MustParse(size))
}

func (w *workshop) nodeExpand(t *testing.T, pv *v1.PersistentVolume, size, mountPath string) (resource.Quantity, error) {
	t.Helper()
	expander, err := w.plugin.NewNodeExpander()
	require.NoError(t, err)
	return expander.NodeExpand(t.Context(), volume.NodeExpandOptions{
		Spec: volume.NewSpecFromPersistentVolume(pv, false), Size: resource.MustParse(size), DeviceMountPath: mountPath,
	})
}

func TestAnImageGrowsAndNeverBecomesSmaller(t *testing.T) {
	for _, preallocate := range []string{"true", "false"} {
		w := newWorkshop(t, map[string]string{"preallocate": preallocate})
		pv := w.mustProvision(t, "pvc-data", rawClaimOf("1Mi"))
		for range 2 {
			result, err := w.expand(t, pv, "3000k")
			require.NoError(t, err)
			assert.EqualValues(t, 3002368, result.Size.Value())
			assert.True(t, result.NodeExpansionRequired)
		}
		info, err := os.Stat(pv.Spec.Local.Path)
		require.NoError(t, err)
		assert.EqualValues(t, 3002368, info.Size())
		if preallocate == "true" {
			assert.GreaterOrEqual(t, allocatedBytes(t, pv.Spec.Local.Path), info.Size())
		}
		_, err = w.expand(t, pv, "2Mi")
		require.ErrorIs(t, err, volume.ErrInvalid)
		_, err = w.nodeExpand(t, pv, "4Mi", "")
		require.ErrorIs(t, err, volume.ErrInvalid)

		// The claim asks for more by now.
		again := w.mustProvision(t, "pvc-data", rawClaimOf("3000k"))
		assert.EqualValues(t, 3002368, again.Spec.Capacity.Storage().Value())
		require.NoError(t, os.Remove(pv.Spec.Local.Path))
		_, err = w.expand(t, pv, "8Mi")
		require.ErrorIs(t, err, volume.ErrNotFound)
		require.NoError(t, w.delete(t.Context(), pv))
		_, err = w.expand(t, pv, "8Mi")
		require.ErrorIs(t, err, volume.ErrInvalid)
	}
}

func TestADeviceGrowsWhileAFileIsWritten(t *testing.T) {
	mountns.RequirePrivate(t)
	for fsType, sizes := range map[string][2]string{"ext4": {"16Mi", "64Mi"}, "xfs": {"300Mi", "400Mi"}, "btrfs": {"256Mi", "400Mi"}} {
		t.Run(fsType, func(t *testing.T) {
			w := newWorkshop(t, map[string]string{"fsType": fsType})
			pv := w.mustProvision(t, "pvc-data", claimOf(sizes[0]))
			spec := volume.NewSpecFromPersistentVolume(pv, false)
			require.NoError(t, mountDevice(t, w.plugin, spec))
			mountPath := w.plugin.deviceMountPath(spec)
			before := blocksOf(t, mountPath)

			stop, stopped := make(chan struct{}), make(chan error, 1)
			begun := make(chan struct{})
			go func() {
				defer close(stopped)
				f, err := os.Create(filepath.Join(mountPath, "file"))
				if err != nil {
					close(begun)
					stopped <- err
					return
				}
				defer f.Close()
				data := make([]byte, 64<<10)
				for n := int64(0); ; n++ {
					for i := range data {
						data[i] = byte(n)
					}
					_, err := f.WriteAt(data, n%64*int64(len(data)))
					if err == nil && n%8 == 0 {
						err = f.Sync()
					}
					if err != nil {
						stopped <- err
						return
					}
					if n == 64 {
						close(begun)
					}
					select {
					case <-stop:
						return
					default:
					}
				}
			}()
			<-begun
			grown := true
			_, err := w.expand(t, pv, sizes[1])
			if err == nil {
				for range 2 {
					_, err = w.nodeExpand(t, pv, sizes[1], mountPath)
				}
				if fsType == "ext4" && errors.Is(err, fs.ErrPermission) && !mayGrowMounted(t) {
					grown, err = false, nil
				}
			}
			close(stop)
			require.NoError(t, <-stopped)
			require.NoError(t, err)
			if grown {
				assert.Greater(t, blocksOf(t, mountPath), before)
			}
			unmountDevice(t, w.plugin, spec)
			if !grown {
				_, err = w.nodeExpand(t, pv, sizes[1], "")
				require.NoError(t, err)
			}
			_, err = filesystem.Check(t.Context(), nil, pv.Spec.Local.Path, fsType)
			assert.NoError(t, err)
			require.NoError(t, w.delete(t.Context(), pv))
		})
	}
}

// mayGrowMounted says whether the kernel lets this process grow an ext4 that is mounted.
func mayGrowMounted(t *testing.T) bool {
	t.Helper()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	require.NoError(t, unix.Capget(&header, &data[0]))
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// blocksOf returns how many bytes the file system has.
func blocksOf(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Statfs_t
	require.NoError(t, unix.Statfs(path, &st))
	return st.Blocks * uint64(st.Bsize)
}

func TestADeviceGrowsOffline(t *testing.T) {
	mountns.RequirePrivate(t)
	for fsType, sizes := range map[string][2]string{"ext4": {"16Mi", "64Mi"}, "xfs": {"300Mi", "400Mi"}, "btrfs": {"256Mi", "400Mi"}} {
		t.Run(fsType, func(t *testing.T) {
			w := newWorkshop(t, map[string]string{"fsType": fsType})
			pv := w.mustProvision(t, "pvc-data", claimOf(sizes[0]))
			_, err := w.expand(t, pv, sizes[1])
			require.NoError(t, err)
			for range 2 {
				grown, err := w.nodeExpand(t, pv, sizes[1], "")
				require.NoError(t, err)
				assert.Zero(t, grown.Cmp(resource.MustParse(sizes[1])))
			}
			assert.Empty(t, loopsOf(t, pv.Spec.Local.Path))
			spec := volume.NewSpecFromPersistentVolume(pv, false)
			require.NoError(t, mountDevice(t, w.plugin, spec))
			asked := resource.MustParse(sizes[1])
			assert.Greater(t, blocksOf(t, w.plugin.deviceMountPath(spec)), uint64(asked.Value())*7/10)
			unmountDevice(t, w.plugin, spec)
		})
	}
}

func TestARawDeviceGrowsWhileItIsMapped(t *testing.T) {
	mountns.RequirePrivate(t)
	w := newWorkshop(t, nil)
	pv := w.mustProvision(t, "pvc-data", rawClaimOf("1Mi"))
	spec := volume.NewSpecFromPersistentVolume(pv, false)
	mapper, err := w.plugin.NewBlockVolumeMapper(spec, podNamed("uid"))
	require.NoError(t, err)
	t.Cleanup(func() {
		unmapper, err := w.plugin.NewBlockVolumeUnmapper(spec.Name(), "uid")
		require.NoError(t, err)
		require.NoError(t, unmapper.TearDownDevice(context.Background(), ""))
	})
	_, err = mapper.SetUpDevice(t.Context(), "")
	require.NoError(t, err)
	device, err := mapper.MapPodDevice(t.Context())
	require.NoError(t, err)
	_, err = w.expand(t, pv, "2Mi")
	require.NoError(t, err)
	size, err := filesystem.Size(device)
	require.NoError(t, err)
	require.EqualValues(t, 1<<20, size)
	_, err = w.nodeExpand(t, pv, "2Mi", "")
	require.NoError(t, err)
	size, err = filesystem.Size(device)
	require.NoError(t, err)
	assert.EqualValues(t, 2<<20, size)
}
