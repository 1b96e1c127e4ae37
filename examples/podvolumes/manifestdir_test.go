// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

func TestAClaimInOneManifestCountsBeforeTheOneThatAnotherMakes(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  template: {spec: {containers: [{name: main}]}}
  volumeClaimTemplates: [{metadata: {name: data}}]
`)
	write(t, filepath.Join(dir, "b.yaml"), `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data-db-0}, spec: {volumeName: own}}`)
	d := manifestDir{path: dir}
	require.NoError(t, d.scan(t.Context()))
	objects, faults := d.objects()
	assert.Empty(t, faults)
	require.Len(t, objects, 1)
	assert.Equal(t, "own", objects[0].Object.(*v1.PersistentVolumeClaim).Spec.VolumeName)
}

func TestAnObjectInTwoManifestsIsThatOfTheFirst(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), `{apiVersion: v1, kind: ConfigMap, metadata: {name: s}, data: {k: a}}`)
	write(t, filepath.Join(dir, "b.yaml"), `{apiVersion: v1, kind: ConfigMap, metadata: {name: s}, data: {k: b}}`)
	d := manifestDir{path: dir}
	require.NoError(t, d.scan(t.Context()))
	objects, faults := d.objects()
	require.Len(t, faults, 1)
	assert.Regexp(t, `b\.yaml: .*ConfigMap default/s stands in .*a\.yaml: .*, which counts`, faults[0])
	require.Len(t, objects, 1)
	assert.Equal(t, "a", objects[0].Object.(*v1.ConfigMap).Data["k"])
}
