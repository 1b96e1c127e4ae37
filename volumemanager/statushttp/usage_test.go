// SPDX-License-Identifier: Apache-2.0

package statushttp

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestHowFullVolumesAreIsShownOfThoseThatWereMeasured(t *testing.T) {
	h := newTestHandler(t, newFakeManager(troubled()), Options{})
	const want = `
# HELP volumekit_volume_available_bytes What is left of the file system that holds the volume.
# TYPE volumekit_volume_available_bytes gauge
volumekit_volume_available_bytes{namespace="shop",pod="web-1",volume="cache"} 5.36870912e+08
# HELP volumekit_volume_capacity_bytes The size of the file system that holds the volume.
# TYPE volumekit_volume_capacity_bytes gauge
volumekit_volume_capacity_bytes{namespace="shop",pod="web-1",volume="cache"} 1.073741824e+09
# HELP volumekit_volume_inodes_used The number of the volume's files.
# TYPE volumekit_volume_inodes_used gauge
volumekit_volume_inodes_used{namespace="shop",pod="web-1",volume="cache"} 2
# HELP volumekit_volume_limit_bytes What bounds the volume, 0 if nothing does.
# TYPE volumekit_volume_limit_bytes gauge
volumekit_volume_limit_bytes{namespace="shop",pod="web-1",volume="cache"} 8192
# HELP volumekit_volume_usage_age_seconds How long ago it was measured how full the volume is.
# TYPE volumekit_volume_usage_age_seconds gauge
volumekit_volume_usage_age_seconds{namespace="shop",pod="web-1",volume="cache"} 20
# HELP volumekit_volume_used_bytes What the volume's files occupy.
# TYPE volumekit_volume_used_bytes gauge
volumekit_volume_used_bytes{namespace="shop",pod="web-1",volume="cache"} 4096
`
	require.NoError(t, testutil.CollectAndCompare(h.Collector(), strings.NewReader(want), "volumekit_volume_used_bytes", "volumekit_volume_limit_bytes",
		"volumekit_volume_capacity_bytes", "volumekit_volume_available_bytes", "volumekit_volume_inodes_used", "volumekit_volume_usage_age_seconds"))
}
