// SPDX-License-Identifier: Apache-2.0

// Package plugins is the ready-made set: every built-in plugin, with its defaults.
package plugins

import (
	"github.com/volumekit/volumekit/blockdev"
	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/projected"
	"github.com/volumekit/volumekit/volume"
)

// Default returns a new instance of every built-in plugin, for [volume.NewVolumePluginMgr] to initialise. A program that
// wants other options for one of them lists the plugins itself.
func Default() []volume.VolumePlugin {
	return append([]volume.VolumePlugin{
		emptydir.New(emptydir.Options{}),
		hostpath.New(hostpath.Options{}),
		blockdev.New(blockdev.Options{}),
	}, projected.New(projected.Options{})...)
}
