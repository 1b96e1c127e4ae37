// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

func TestASourceThatNobodyServesSaysWhatWould(t *testing.T) {
	for source := SourceSeveral + 1; source < sourceTypes; source++ {
		assert.NotEmpty(t, instead[source], source.String())
	}
	_, err := newRegistry(nil).find(NewSpecFromVolume(&v1.Volume{VolumeSource: v1.VolumeSource{
		AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}}}))
	require.ErrorIs(t, err, ErrNotSupported)
	assert.ErrorContains(t, err, "source awsElasticBlockStore is not served here")
	assert.ErrorContains(t, err, "ebs.csi.aws.com")
}
