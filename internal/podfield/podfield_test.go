// SPDX-License-Identifier: Apache-2.0

package podfield

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
)

func TestMain(m *testing.M) { os.Exit(mountns.Main(m)) }

func TestTheFieldsOfMetadataAreRead(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "uid", Labels: map[string]string{"a": "1"}, Annotations: map[string]string{"Example.com/B": "2"}}}
	for path, want := range map[string]string{"metadata.name": "web", "metadata.namespace": "shop", "metadata.uid": "uid", "metadata.labels['a']": "1",
		"metadata.labels['b']": "", "metadata.annotations['Example.com/B']": "2"} {
		value, ok, err := Metadata(pod, &v1.ObjectFieldSelector{FieldPath: path})
		require.NoError(t, err)
		assert.True(t, ok)
		assert.Equal(t, want, value, path)
	}
	for _, path := range []string{"", "metadata", "metadata.labels", "spec.nodeName", "metadata.labels['a'", "metadata.labels[a]"} {
		_, ok, err := Metadata(pod, &v1.ObjectFieldSelector{FieldPath: path})
		require.NoError(t, err)
		assert.False(t, ok, path)
	}
	for _, ref := range []v1.ObjectFieldSelector{{FieldPath: "metadata.labels['a b']"}, {FieldPath: "metadata.labels['']"}, {FieldPath: "metadata.name", APIVersion: "v2"}} {
		_, _, err := Metadata(pod, &ref)
		require.ErrorIs(t, err, volume.ErrInvalid, ref.FieldPath)
	}
}
