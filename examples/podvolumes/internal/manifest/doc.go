// SPDX-License-Identifier: Apache-2.0

// Package manifest reads Kubernetes manifests and yields the pods that they stand for, and the objects that the pods' volumes
// come from: what a cluster would run, known without a cluster and the same on every run.
//
//	result, errs := manifest.Load(ctx, []string{"web.yaml", "-"}, manifest.Options{Stdin: os.Stdin})
//	for _, pod := range result.Pods {
//		fmt.Println(pod.Origin, "makes", pod.Pod.Name)
//	}
//
// # What is read
//
// Files, directories (their .json, .yaml and .yml files in the order of their names, not those of directories below them,
// as with kubectl) and standard input. A file holds YAML documents parted by "---", or JSON values one after the other, or
// both; UTF-8 with or without a byte order mark, with either kind of line end. A document is what lies between two
// separators and holds more than comments; those are numbered from 1, and each JSON value counts as one.
//
// Lists (v1 List, PodList, DeploymentList …) are read as the objects in them. The items of a typed list may leave out
// apiVersion and kind, as they do in an answer of the API server; nothing else is inherited.
//
// # What becomes a pod
//
//   - v1 Pod: itself.
//   - apps/v1 Deployment, apps/v1 ReplicaSet, v1 ReplicationController: spec.replicas pods, 1 where it is absent.
//   - apps/v1 StatefulSet: spec.replicas pods called NAME-0, NAME-1 …, counted from spec.ordinals.start. Each has a
//     persistentVolumeClaim volume for every volumeClaimTemplate, which replaces the template's volume of that name.
//   - apps/v1 DaemonSet: one pod, since there is one node.
//   - batch/v1 Job: the pods that run first and at once: spec.parallelism (1 where it is absent) but not more than
//     spec.completions. With completionMode Indexed they have the indexes 0, 1 … in name, label, annotation, host name and
//     the variable JOB_COMPLETION_INDEX.
//   - batch/v1 CronJob: the pods of one job.
//   - v1 PodTemplate: one pod. A cluster runs none, but nobody hands one over to see nothing.
//
// # What volumes come from
//
// v1 ConfigMap, Secret, ServiceAccount, PersistentVolume and PersistentVolumeClaim, storage.k8s.io/v1 StorageClass and
// certificates.k8s.io/v1 ClusterTrustBundle are in [Result.Objects]. Two of one kind, namespace and name are an error. To
// them come the claims that a cluster would make, unless the manifests hold them: TEMPLATE-POD for each pod of a StatefulSet
// and each of its volumeClaimTemplates, and POD-VOLUME for each ephemeral volume, which the pod owns.
//
// # What is ignored
//
// A suspended Job or CronJob and an object of 0 replicas stand for no pod, as in a cluster; they are listed in
// [Result.Ignored] with the reason. So is every object of another kind, such as a Service or a custom resource. A
// misspelled kind of v1, apps/v1 or batch/v1, and a kind that is read under an apiVersion that Kubernetes has dropped
// (extensions/v1beta1, apps/v1beta2, batch/v1beta1, storage.k8s.io/v1beta1 …), are errors.
//
// # Names that stay
//
// Where a cluster would append five random characters, five characters of the same alphabet are derived from kind,
// namespace, name and ordinal, so that each run finds the pods of the one before. A Deployment's pods are called
// NAME-SUFFIX, without the hash of the template that Kubernetes puts in between: an edited template is to change the pods
// that are there, not to leave them behind and begin others. A CronJob's are called so too, without the time. Long names
// are cut to 58 bytes before the suffix, as Kubernetes does. A generateName gets such a suffix as well, the ordinal being
// the object's place among those of its kind, namespace and generateName in its file.
//
// A pod without metadata.uid gets a version 5 UUID made from its namespace and name. A pod without a namespace is in
// "default". A pod that comes from a template has one owner reference, to the object that holds the template.
//
// # Strictness
//
// In objects that make pods or volumes, a field that Kubernetes 1.37 does not know, a key that is there twice, and a value of the wrong
// type are errors that name the field. In other objects only apiVersion, kind and metadata are looked at. Names,
// namespaces and pod UIDs are checked here, since paths are made of them; everything else in a pod is left to those who
// act on it, as are the other objects' names. No error repeats what a Secret holds. Three defaults of the API server are applied, because volumes depend on them: a volume without a source is
// an emptyDir, a container's requests are its limits where only those are given (the page size of a HugePages emptyDir
// comes from requests), and the namespace.
//
// One bad document does not hide the others: [Load] returns what is good beside all errors.
//
// # Limits
//
// [Options.MaxPods] and [Options.MaxDocumentBytes] bound what a manifest, by mistake or malice, can make of the memory.
// The latter also bounds the text that YAML aliases expand to; an object that is read may have 3 MiB, as in a cluster.
// While a YAML document is read it takes up to about 140 bytes of memory for each byte of its text, usually half of that,
// and JSON far less.
package manifest
