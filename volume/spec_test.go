// SPDX-License-Identifier: Apache-2.0

package volume_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/volume"
)

func TestASpecIsNamedAfterThePersistentVolumeOrTheVolume(t *testing.T) {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	assert.Equal(t, "pv", volume.NewSpecFromPersistentVolume(pv, true).Name())
	assert.Equal(t, "volume", volume.NewSpecFromVolume(&v1.Volume{Name: "volume"}).Name())
	assert.Empty(t, (&volume.Spec{}).Name())
	assert.Empty(t, (*volume.Spec)(nil).Name())
}

func TestASpecIsReadOnlyIfTheClaimSaysSo(t *testing.T) {
	assert.True(t, volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{}, true).ReadOnly)
	assert.False(t, volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{}, false).ReadOnly)
}
