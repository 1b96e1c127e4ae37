// SPDX-License-Identifier: Apache-2.0

package volume

// instead says what would serve sources for which no plugin is registered, and in whose place something else is used nowadays.
var instead = [sourceTypes]string{
	SourceEmptyDir:    "plugin kubernetes.io/empty-dir serves it (package emptydir)",
	SourceHostPath:    "plugin kubernetes.io/host-path serves it (package hostpath)",
	SourceConfigMap:   "plugin kubernetes.io/configmap serves it (package projected)",
	SourceSecret:      "plugin kubernetes.io/secret serves it (package projected)",
	SourceDownwardAPI: "plugin kubernetes.io/downward-api serves it (package projected)",
	SourceProjected:   "plugin kubernetes.io/projected serves it (package projected)",

	SourcePersistentVolumeClaim: "it stands for the PersistentVolume that the claim is bound to",
	SourceEphemeral:             "it stands for the PersistentVolume that the claim of its template is bound to",

	SourceCSI:        "a plugin for the CSI driver of that name has to be registered",
	SourceFlexVolume: "a plugin for the FlexVolume driver of that name has to be registered",
	SourceNFS:        "a plugin kubernetes.io/nfs would serve it, or the CSI driver nfs.csi.k8s.io",
	SourceLocal:      "a plugin kubernetes.io/local-volume would serve it",
	SourceISCSI:      "a plugin kubernetes.io/iscsi would serve it, or a CSI driver of the storage",
	SourceFC:         "a plugin kubernetes.io/fc would serve it, or a CSI driver of the storage",

	SourceImage: "a container runtime mounts it, which has the images: have that do it, or copy the files to an emptyDir volume in an " +
		"init container that runs the image",
	SourceGitRepo: "Kubernetes serves it no more, since it runs what a repository says as root: clone into an emptyDir volume in an init container",

	SourceAWSElasticBlockStore: "the CSI driver ebs.csi.aws.com serves what it describes",
	SourceAzureDisk:            "the CSI driver disk.csi.azure.com serves what it describes",
	SourceAzureFile:            "the CSI driver file.csi.azure.com serves what it describes",
	SourceCinder:               "the CSI driver cinder.csi.openstack.org serves what it describes",
	SourceGCEPersistentDisk:    "the CSI driver pd.csi.storage.gke.io serves what it describes",
	SourcePortworxVolume:       "the CSI driver pxd.portworx.com serves what it describes",
	SourceVsphereVolume:        "the CSI driver csi.vsphere.vmware.com serves what it describes",

	SourceCephFS:               "Kubernetes has removed it: use a csi source with the driver cephfs.csi.ceph.com",
	SourceRBD:                  "Kubernetes has removed it: use a csi source with the driver rbd.csi.ceph.com",
	SourceGlusterfs:            "Kubernetes has removed it: use a csi source with a driver for GlusterFS, or an nfs source",
	SourceFlocker:              "Kubernetes has removed it, and Flocker is no more: use a csi source",
	SourcePhotonPersistentDisk: "Kubernetes has removed it, and Photon Controller is no more: use a csi source with the driver csi.vsphere.vmware.com",
	SourceQuobyte:              "Kubernetes has removed it: use a csi source with the driver csi.quobyte.com",
	SourceScaleIO:              "Kubernetes has removed it: use a csi source with the driver csi-vxflexos.dellemc.com",
	SourceStorageOS:            "Kubernetes has removed it: use a csi source with the driver csi.storageos.com",
}
