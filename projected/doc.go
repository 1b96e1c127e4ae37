// SPDX-License-Identifier: Apache-2.0

// Package projected serves the volumes whose files come from objects of the API: configMap, secret, downwardAPI and projected.
//
// # What a volume looks like
//
// It is a tmpfs, which is not swapped out where the kernel knows how to do without (Linux 6.4), and in it are, as in Kubernetes,
//
//	..2026_12_01_10_30_00.123456789/    the files
//	..data -> ..2026_12_01_10_30_00.123456789
//	name -> ..data/name                 one for each file, or directory of files
//
// Containers can only read it. What [volume.Mounter].SetUp finds changed in the objects replaces all files at once, by one rename of
// "..data"; files that a program has open stay as they are. If nothing has changed nothing is written.
//
// # Where the content comes from
//
// From the sources of [volume.Host]: ConfigMaps, Secrets, Tokens, TrustBundles, PodCertificates, and Nodes for resources that a
// container has no limit of. A volume that needs a source which the host does not have is refused, by the name of what is missing.
// An object, or a key, that is not there is an error that matches [volume.ErrNotFound], unless it is optional: nothing is written
// then, and what an earlier SetUp has written stays.
//
// Tokens and certificates are asked for when a volume is set up, kept in memory, and renewed before they expire; see
// [volume.Refresher]. While they are valid a renewal that fails is a warning.
//
// # Who may read
//
// Files have the mode that the source asks for, 0644 unless it does. With the pod's fsGroup they belong to that group, which can read
// them (0440 is added), and so do the directories (02110 is added). Tokens, trust bundles and certificates of pods whose containers
// all run as one user belong to that user and have mode 0600; with an fsGroup they have 0640 in the end. A file's user, and defaultUser,
// have their effect.
//
// Which fields there are and what they mean is as in Kubernetes 1.37; see https://kubernetes.io/docs/concepts/storage/projected-volumes/.
package projected
