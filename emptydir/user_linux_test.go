// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
)

func TestAnOrdinaryUserHasDirectories(t *testing.T) {
	mountns.AsOrdinaryUser(t, func(t *testing.T) {
		for _, mode := range []int32{0o777, 0o1777, 0} {
			f := newFixture(t, v1.EmptyDirVolumeSource{Mode: &mode})
			f.setUp()
			f.setUp()
			f.wantPresence(volume.Present)
			assert.EqualValues(t, mode, statOf(t, f.path).Mode&0o7777)
			f.tearDown()
		}
	})
}

func TestAnOrdinaryUserCanUseAGroupOfItsOwnOnly(t *testing.T) {
	mountns.AsOrdinaryUser(t, func(t *testing.T) {
		f := newFixture(t, v1.EmptyDirVolumeSource{})
		require.NoError(t, f.setUpWith(volume.SetUpOptions{FSGroup: ptr.To(int64(os.Getegid()))}))
		assert.EqualValues(t, 0o2777, statOf(t, f.path).Mode&0o7777)
		f.tearDown()
		err := f.setUpWith(volume.SetUpOptions{FSGroup: ptr.To[int64](54321)})
		require.ErrorIs(t, err, unix.EPERM)
		assert.ErrorContains(t, err, "fsGroup")
		f.wantPresence(volume.Absent)
		f.tearDown()
	})
}

func TestWhatNeedsRootSaysSo(t *testing.T) {
	mountns.AsOrdinaryUser(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			medium  v1.StorageMedium
			options Options
		}{
			"memory":                   {"Memory", Options{}},
			"huge pages":               {"HugePages", Options{}},
			"a directory with options": {"", Options{NoExec: true}},
		} {
			t.Run(name, func(t *testing.T) {
				f := newFixture(t, v1.EmptyDirVolumeSource{Medium: test.medium})
				f.restart(test.options)
				err := f.trySetUp()
				require.ErrorIs(t, err, unix.EPERM)
				assert.ErrorContains(t, err, "root (CAP_SYS_ADMIN)")
				assert.ErrorContains(t, err, f.path)
				assert.False(t, f.plugin.tmpfs.NoSwapRefused(), "the option was not what it was about")
				f.wantPresence(volume.Absent)
				f.tearDown()
			})
		}
	})
}
