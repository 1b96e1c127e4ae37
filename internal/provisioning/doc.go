// SPDX-License-Identifier: Apache-2.0

// Package provisioning is what plugins have in common that provision storage on the node itself: what claims and classes are refused
// for, the node affinity of what is made, and its PersistentVolume.
package provisioning
