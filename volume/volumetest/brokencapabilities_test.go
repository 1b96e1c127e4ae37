// SPDX-License-Identifier: Apache-2.0

package volumetest_test

import (
	"testing"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// brokenCapabilities are those of a capablePlugin; their names are what it knows to do wrong.
func brokenCapabilities() []brokenCase {
	var cases []brokenCase
	for _, c := range []struct{ wrong, fails, says string }{
		{"NewAttacher writes", "plugin/CapabilitiesComeWithoutIO", "what has changed on the disk"},
		{"Attached has no answer", "filesystem/AttachAndDetachCanBeRepeated", "Attached has no answer"},
		{"Attached overlooks what is attached", "filesystem/AttachAndDetachCanBeRepeated", "Attached after Attach"},
		{"Detach of what is not attached fails", "filesystem/AttachAndDetachCanBeRepeated", "Detach of what is not attached"},
		{"Attach is stuck once it was cancelled", "filesystem/ACancelledAttachReturnsAndCanBeRepeated", "stuck"},
		{"MountDevice mounts again", "filesystem/MountDeviceAndUnmountDeviceCanBeRepeated", "the second time"},
		{"DeviceMountRefs lists the path itself", "filesystem/TheDeviceStaysMountedWhileAPodGoes", "lists the other places"},
		{"Expand reports no size", "filesystem/ExpandCanBeRepeated", "the size is 0 after Expand"},
		{"NodeExpand looks for the volume elsewhere", "filesystem/NodeExpandCanBeRepeated", "NodeExpand: "},
		{"Recycle overlooks hidden files", "filesystem/RecycleRemovesTheFilesAndKeepsTheVolume", "what is in the volume after Recycle"},
		{"NewBlockVolumeMapper writes", "block/BlockMappersComeWithoutIO", "what has changed on the disk"},
		{"MapPodDevice makes new links", "block/MapAndUnmapCanBeRepeated", "the second time"},
		{"UnmapPodDevice of what is not there fails", "block/UnmapOfWhatWasNeverMapped", "UnmapPodDevice and TearDownDevice: "},
		{"block volumes may have any name", "block/BlockMappersRefuseHostileNames", "NewBlockVolumeMapper of volume"},
		{"Provision gives too little", "provisioning/ProvisionDescribesWhatWasAskedFor", "the claim asks for 1Gi"},
		{"Provision makes something new each time", "provisioning/ProvisionAgainReturnsTheSame", "what Provision returns for the same name"},
		{"Provision that was cancelled leaves something in its way", "provisioning/ACancelledProvisionReturnsAndCanBeRepeated", "Provision: "},
		{"Provision empties what is there", "provisioning/WhatWasProvisionedCanBeUsed", "read from the volume"},
		{"Delete of what is gone fails", "provisioning/DeleteCanBeRepeated", "Delete: "},
		{"Delete deletes what others have provisioned", "provisioning/DeleteRefusesWhatAnotherProvisionerMade", "another one has provisioned"},
	} {
		cases = append(cases, brokenCase{
			name: c.wrong, fails: c.fails, says: c.says,
			config: func(t *testing.T) volumetest.Config {
				server := newServer(t)
				config := capableConfig(server)
				config.New = func() volume.VolumePlugin {
					p := newCapablePlugin(server)
					p.wrong = c.wrong
					return p
				}
				return config
			},
		})
	}
	return cases
}
