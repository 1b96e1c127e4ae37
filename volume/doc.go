// SPDX-License-Identifier: Apache-2.0

// Package volume holds the contracts of the volume layer: what a plugin is and what it can do, what it may ask of the
// program that hosts it, and the VolumePluginMgr that finds the plugin for a volume.
//
// The nouns and their meaning are those of Kubernetes. Three things differ: whatever can block takes a context first, a
// check has three answers (see [Presence]), and a capability is an optional interface that [Find] asks for.
//
//	mgr, err := volume.NewVolumePluginMgr(ctx, volume.Host{Root: "/var/lib/agent"}, plugins.Default())
//	plugin, err := mgr.FindPluginBySpec(spec)
//	attachable, err := volume.Find[volume.AttachableVolumePlugin](mgr, spec)
//
// Somebody who writes a plugin implements [VolumePlugin] and those of the capability interfaces that apply, and runs
// package volumetest on it.
package volume
