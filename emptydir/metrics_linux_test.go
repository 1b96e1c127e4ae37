// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/volume"
)

func (f *fixture) metrics() volume.Metrics {
	f.Helper()
	metrics, err := f.mounter().(volume.MetricsProvider).Metrics(f.Context())
	require.NoError(f, err)
	assert.False(f, metrics.Time.IsZero())
	return metrics
}

func TestMetricsTellTheLimitAndWhoEnforcesIt(t *testing.T) {
	begin(t)
	limit := ptr.To(resource.MustParse("5000")) // part of a second page
	for name, test := range map[string]struct {
		source   v1.EmptyDirVolumeSource
		limit    int64
		enforced bool
	}{
		"directory":            {v1.EmptyDirVolumeSource{SizeLimit: limit}, 5000, false},
		"directory, no limit":  {v1.EmptyDirVolumeSource{}, 0, false},
		"memory":               {v1.EmptyDirVolumeSource{Medium: "Memory", SizeLimit: limit}, 8192, true},
		"memory, no limit":     {v1.EmptyDirVolumeSource{Medium: "Memory"}, 0, false},
		"huge pages":           {v1.EmptyDirVolumeSource{Medium: "HugePages", SizeLimit: limit}, 2 * mebi, true},
		"huge pages, no limit": {v1.EmptyDirVolumeSource{Medium: "HugePages"}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, test.source)
			f.setUp()
			metrics := f.metrics()
			assert.Equal(t, test.limit, metrics.Limit)
			assert.Equal(t, test.enforced, metrics.LimitEnforced)
			if test.enforced {
				assert.Equal(t, test.limit, metrics.Capacity)
			}
			f.tearDown()
		})
	}
}

func TestMetricsCountTheVolumeAndNotItsNeighbours(t *testing.T) {
	begin(t)
	for _, medium := range []v1.StorageMedium{"", "Memory"} {
		t.Run(string(medium), func(t *testing.T) {
			f := newFixture(t, v1.EmptyDirVolumeSource{Medium: medium})
			f.setUp()
			before := f.metrics()
			require.NoError(t, os.WriteFile(filepath.Join(f.host.Root, "neighbour"), make([]byte, mebi), 0o644))
			assert.Equal(t, before.Used, f.metrics().Used)
			require.NoError(t, os.WriteFile(filepath.Join(f.path, "file"), make([]byte, mebi), 0o644))
			after := f.metrics()
			assert.GreaterOrEqual(t, after.Used, before.Used+mebi)
			assert.Equal(t, before.InodesUsed+1, after.InodesUsed)
			f.tearDown()
		})
	}
}

func TestMetricsOfHugePagesCountFiles(t *testing.T) {
	begin(t)
	f := newFixture(t, v1.EmptyDirVolumeSource{Medium: "HugePages", SizeLimit: ptr.To(resource.MustParse("2Mi"))})
	f.setUp()
	file, err := os.Create(filepath.Join(f.path, "file"))
	require.NoError(t, err)
	require.NoError(t, file.Close())
	metrics := f.metrics()
	assert.EqualValues(t, 2, metrics.InodesUsed)
	assert.Zero(t, metrics.Inodes, "hugetlbfs bounds them not, and says that there are 2⁶⁴-1")
	assert.Zero(t, metrics.InodesFree)
	f.tearDown()
}

func TestThereAreNoMetricsOfAVolumeThatIsNotThere(t *testing.T) {
	begin(t)
	for _, medium := range []v1.StorageMedium{"", "Memory"} {
		f := newFixture(t, v1.EmptyDirVolumeSource{Medium: medium})
		_, err := f.mounter().(volume.MetricsProvider).Metrics(t.Context())
		require.ErrorIs(t, err, volume.ErrNotFound)
		if medium != "" {
			f.makeVolumeDir()
			_, err := f.mounter().(volume.MetricsProvider).Metrics(t.Context())
			require.ErrorIs(t, err, volume.ErrNotFound, "a bare mount point")
		}
	}
}
