// SPDX-License-Identifier: Apache-2.0

package volume_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/volume"
)

// sourceFields are the fields of v1.VolumeSource and v1.PersistentVolumeSource, each as a spec that sets it.
func sourceFields() map[string]*volume.Spec {
	specs := make(map[string]*volume.Spec)
	fields := func(sources any, name string, newSpec func() (sources any, spec *volume.Spec)) {
		structure := reflect.TypeOf(sources)
		for i := range structure.NumField() {
			sources, spec := newSpec()
			field := reflect.ValueOf(sources).Elem().Field(i)
			field.Set(reflect.New(field.Type().Elem()))
			specs[name+"."+structure.Field(i).Name] = spec
		}
	}
	fields(v1.VolumeSource{}, "VolumeSource", func() (any, *volume.Spec) {
		vol := &v1.Volume{}
		return &vol.VolumeSource, volume.NewSpecFromVolume(vol)
	})
	fields(v1.PersistentVolumeSource{}, "PersistentVolumeSource", func() (any, *volume.Spec) {
		pv := &v1.PersistentVolume{}
		return &pv.Spec.PersistentVolumeSource, volume.NewSpecFromPersistentVolume(pv, false)
	})
	return specs
}

// jsonName returns the name in JSON of the field "Structure.Field".
func jsonName(t *testing.T, name string) string {
	structureName, fieldName, _ := strings.Cut(name, ".")
	structure := reflect.TypeFor[v1.VolumeSource]()
	if structureName == "PersistentVolumeSource" {
		structure = reflect.TypeFor[v1.PersistentVolumeSource]()
	}
	field, ok := structure.FieldByName(fieldName)
	require.True(t, ok)
	tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return tag
}

func TestSourceKnowsEveryFieldOfTheAPIAndNamesItAsJSONDoes(t *testing.T) {
	for field, spec := range sourceFields() {
		assert.Equal(t, jsonName(t, field), spec.Source().String(), field)
	}
}

func TestAFieldThatBothStructuresHaveIsOneSourceType(t *testing.T) {
	fields := sourceFields()
	for field, spec := range fields {
		_, name, _ := strings.Cut(field, ".")
		if inPod, ok := fields["VolumeSource."+name]; ok {
			assert.Equal(t, inPod.Source(), spec.Source(), name)
		}
	}
}

func TestASpecThatSetsTwoFieldsHasSeveralSources(t *testing.T) {
	// Every field together with another one, so that none can hide behind the one that is looked at first.
	for field, spec := range sourceFields() {
		switch {
		case spec.PersistentVolume != nil && spec.PersistentVolume.Spec.HostPath == nil:
			spec.PersistentVolume.Spec.HostPath = &v1.HostPathVolumeSource{}
		case spec.PersistentVolume != nil:
			spec.PersistentVolume.Spec.NFS = &v1.NFSVolumeSource{}
		case spec.Volume.HostPath == nil:
			spec.Volume.HostPath = &v1.HostPathVolumeSource{}
		default:
			spec.Volume.NFS = &v1.NFSVolumeSource{}
		}
		assert.Equal(t, volume.Source{Type: volume.SourceSeveral}, spec.Source(), field)
	}
}

func TestASpecThatSetsNothingHasNoSource(t *testing.T) {
	for name, spec := range map[string]*volume.Spec{
		"nil":              nil,
		"empty":            {},
		"empty volume":     volume.NewSpecFromVolume(&v1.Volume{Name: "volume"}),
		"empty persistent": volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{}, false),
	} {
		assert.Equal(t, volume.Source{Type: volume.SourceNone}, spec.Source(), name)
		assert.Equal(t, "no source", spec.Source().String(), name)
	}
}

func TestTheDriverIsThatOfCSIAndFlexVolume(t *testing.T) {
	for want, spec := range map[string]*volume.Spec{
		"csi/in-pod": volume.NewSpecFromVolume(&v1.Volume{VolumeSource: v1.VolumeSource{
			CSI: &v1.CSIVolumeSource{Driver: "in-pod"},
		}}),
		"flexVolume/vendor/in-pod": volume.NewSpecFromVolume(&v1.Volume{VolumeSource: v1.VolumeSource{
			FlexVolume: &v1.FlexVolumeSource{Driver: "vendor/in-pod"},
		}}),
		"csi/persistent": persistentSpec(v1.PersistentVolumeSource{
			CSI: &v1.CSIPersistentVolumeSource{Driver: "persistent"},
		}),
		"flexVolume/vendor/persistent": persistentSpec(v1.PersistentVolumeSource{
			FlexVolume: &v1.FlexPersistentVolumeSource{Driver: "vendor/persistent"},
		}),
	} {
		source := spec.Source()
		assert.Equal(t, want, source.String())
		assert.Equal(t, want, source.Type.String()+"/"+source.Driver)
	}
}

func persistentSpec(source v1.PersistentVolumeSource) *volume.Spec {
	pv := &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: source}}
	pv.Name = "pv"
	return volume.NewSpecFromPersistentVolume(pv, false)
}

func TestASourceTypeThatDoesNotExistHasANameToo(t *testing.T) {
	assert.Equal(t, "unknown source", volume.SourceType(255).String())
}

func TestSourceAllocatesNothing(t *testing.T) {
	for field, spec := range sourceFields() {
		assert.Zero(t, testing.AllocsPerRun(100, func() { spec.Source() }), field)
	}
}
