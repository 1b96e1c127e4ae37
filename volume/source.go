// SPDX-License-Identifier: Apache-2.0

package volume

import (
	v1 "k8s.io/api/core/v1"
)

// Source is the kind of a volume source: which field of the API object is set, and the driver that the field names.
type Source struct {
	// Type is the field.
	Type SourceType

	// Driver is the driver that a csi or flexVolume source names. In the answer of [VolumePlugin.Sources] an empty
	// Driver stands for every driver.
	Driver string
}

// String returns the field's name, and the driver's after a slash if there is one.
func (s Source) String() string {
	if s.Driver != "" {
		return s.Type.String() + "/" + s.Driver
	}
	return s.Type.String()
}

// SourceType is a field of [v1.VolumeSource] or [v1.PersistentVolumeSource]. A field that both have is one SourceType.
type SourceType uint8

// The source types of Kubernetes 1.37.
const (
	// SourceNone is a spec that sets no field. No plugin serves it.
	SourceNone SourceType = iota
	// SourceSeveral is a spec that sets more than one field. No plugin serves it.
	SourceSeveral

	// Each of the rest is the field of its name.
	SourceEmptyDir
	SourceHostPath
	SourceConfigMap
	SourceSecret
	SourceDownwardAPI
	SourceProjected
	SourcePersistentVolumeClaim
	SourceEphemeral
	SourceCSI
	SourceFlexVolume
	SourceNFS
	SourceLocal
	SourceISCSI
	SourceFC
	SourceImage
	SourceGitRepo
	SourceCephFS
	SourceRBD
	SourceGlusterfs
	SourceAWSElasticBlockStore
	SourceAzureDisk
	SourceAzureFile
	SourceCinder
	SourceFlocker
	SourceGCEPersistentDisk
	SourcePhotonPersistentDisk
	SourcePortworxVolume
	SourceQuobyte
	SourceScaleIO
	SourceStorageOS
	SourceVsphereVolume

	sourceTypes = iota
)

var sourceNames = [sourceTypes]string{
	SourceNone:                  "no source",
	SourceSeveral:               "several sources",
	SourceEmptyDir:              "emptyDir",
	SourceHostPath:              "hostPath",
	SourceConfigMap:             "configMap",
	SourceSecret:                "secret",
	SourceDownwardAPI:           "downwardAPI",
	SourceProjected:             "projected",
	SourcePersistentVolumeClaim: "persistentVolumeClaim",
	SourceEphemeral:             "ephemeral",
	SourceCSI:                   "csi",
	SourceFlexVolume:            "flexVolume",
	SourceNFS:                   "nfs",
	SourceLocal:                 "local",
	SourceISCSI:                 "iscsi",
	SourceFC:                    "fc",
	SourceImage:                 "image",
	SourceGitRepo:               "gitRepo",
	SourceCephFS:                "cephfs",
	SourceRBD:                   "rbd",
	SourceGlusterfs:             "glusterfs",
	SourceAWSElasticBlockStore:  "awsElasticBlockStore",
	SourceAzureDisk:             "azureDisk",
	SourceAzureFile:             "azureFile",
	SourceCinder:                "cinder",
	SourceFlocker:               "flocker",
	SourceGCEPersistentDisk:     "gcePersistentDisk",
	SourcePhotonPersistentDisk:  "photonPersistentDisk",
	SourcePortworxVolume:        "portworxVolume",
	SourceQuobyte:               "quobyte",
	SourceScaleIO:               "scaleIO",
	SourceStorageOS:             "storageos",
	SourceVsphereVolume:         "vsphereVolume",
}

// String returns the field's name in JSON, "emptyDir".
func (t SourceType) String() string {
	if int(t) < len(sourceNames) {
		return sourceNames[t]
	}
	return "unknown source"
}

// Source returns the kind of the spec's source. It allocates nothing.
func (s *Spec) Source() Source {
	switch {
	case s == nil:
		return Source{}
	case s.PersistentVolume != nil:
		return persistentVolumeSource(&s.PersistentVolume.Spec.PersistentVolumeSource)
	case s.Volume != nil:
		return volumeSource(&s.Volume.VolumeSource)
	}
	return Source{}
}

// fieldCounter counts the fields that it is told of. Looking at every field, rather than stopping at the first, is what makes a
// second source an error instead of a coin toss.
type fieldCounter struct {
	source SourceType
	count  int
}

func (f *fieldCounter) add(isSet bool, t SourceType) {
	if isSet {
		f.source = t
		f.count++
	}
}

func (f *fieldCounter) only() SourceType {
	if f.count > 1 {
		return SourceSeveral
	}
	return f.source
}

func volumeSource(v *v1.VolumeSource) Source {
	var f fieldCounter
	f.add(v.EmptyDir != nil, SourceEmptyDir)
	f.add(v.HostPath != nil, SourceHostPath)
	f.add(v.ConfigMap != nil, SourceConfigMap)
	f.add(v.Secret != nil, SourceSecret)
	f.add(v.DownwardAPI != nil, SourceDownwardAPI)
	f.add(v.Projected != nil, SourceProjected)
	f.add(v.PersistentVolumeClaim != nil, SourcePersistentVolumeClaim)
	f.add(v.Ephemeral != nil, SourceEphemeral)
	f.add(v.CSI != nil, SourceCSI)
	f.add(v.FlexVolume != nil, SourceFlexVolume)
	f.add(v.NFS != nil, SourceNFS)
	f.add(v.ISCSI != nil, SourceISCSI)
	f.add(v.FC != nil, SourceFC)
	f.add(v.Image != nil, SourceImage)
	f.add(v.GitRepo != nil, SourceGitRepo)
	f.add(v.CephFS != nil, SourceCephFS)
	f.add(v.RBD != nil, SourceRBD)
	f.add(v.Glusterfs != nil, SourceGlusterfs)
	f.add(v.AWSElasticBlockStore != nil, SourceAWSElasticBlockStore)
	f.add(v.AzureDisk != nil, SourceAzureDisk)
	f.add(v.AzureFile != nil, SourceAzureFile)
	f.add(v.Cinder != nil, SourceCinder)
	f.add(v.Flocker != nil, SourceFlocker)
	f.add(v.GCEPersistentDisk != nil, SourceGCEPersistentDisk)
	f.add(v.PhotonPersistentDisk != nil, SourcePhotonPersistentDisk)
	f.add(v.PortworxVolume != nil, SourcePortworxVolume)
	f.add(v.Quobyte != nil, SourceQuobyte)
	f.add(v.ScaleIO != nil, SourceScaleIO)
	f.add(v.StorageOS != nil, SourceStorageOS)
	f.add(v.VsphereVolume != nil, SourceVsphereVolume)
	source := Source{Type: f.only()}
	switch source.Type {
	case SourceCSI:
		source.Driver = v.CSI.Driver
	case SourceFlexVolume:
		source.Driver = v.FlexVolume.Driver
	}
	return source
}

func persistentVolumeSource(v *v1.PersistentVolumeSource) Source {
	var f fieldCounter
	f.add(v.HostPath != nil, SourceHostPath)
	f.add(v.CSI != nil, SourceCSI)
	f.add(v.FlexVolume != nil, SourceFlexVolume)
	f.add(v.NFS != nil, SourceNFS)
	f.add(v.Local != nil, SourceLocal)
	f.add(v.ISCSI != nil, SourceISCSI)
	f.add(v.FC != nil, SourceFC)
	f.add(v.CephFS != nil, SourceCephFS)
	f.add(v.RBD != nil, SourceRBD)
	f.add(v.Glusterfs != nil, SourceGlusterfs)
	f.add(v.AWSElasticBlockStore != nil, SourceAWSElasticBlockStore)
	f.add(v.AzureDisk != nil, SourceAzureDisk)
	f.add(v.AzureFile != nil, SourceAzureFile)
	f.add(v.Cinder != nil, SourceCinder)
	f.add(v.Flocker != nil, SourceFlocker)
	f.add(v.GCEPersistentDisk != nil, SourceGCEPersistentDisk)
	f.add(v.PhotonPersistentDisk != nil, SourcePhotonPersistentDisk)
	f.add(v.PortworxVolume != nil, SourcePortworxVolume)
	f.add(v.Quobyte != nil, SourceQuobyte)
	f.add(v.ScaleIO != nil, SourceScaleIO)
	f.add(v.StorageOS != nil, SourceStorageOS)
	f.add(v.VsphereVolume != nil, SourceVsphereVolume)
	source := Source{Type: f.only()}
	switch source.Type {
	case SourceCSI:
		source.Driver = v.CSI.Driver
	case SourceFlexVolume:
		source.Driver = v.FlexVolume.Driver
	}
	return source
}
