// SPDX-License-Identifier: Apache-2.0

// Package objects holds API objects that volumes depend on in memory, for programs that know them by themselves: from manifests,
// from a configuration, from a protocol of their own. A [Store] is every source of a [volume.Host] that objects alone can be:
//
//	store := objects.NewStore()
//	err := store.Set(secret, configMap, claim, persistentVolume)
//	host = store.Fill(host)
//
// Below it are sources that read a directory of manifests, ask an API server, and issue tokens without one.
package objects
