// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/filesystem"
	"github.com/volumekit/volumekit/internal/provisioning"
	"github.com/volumekit/volumekit/volume"
)

// parameters are those of a StorageClass.
type parameters struct {
	directory     string // empty: the plugin's first
	fsType        string // empty for a raw device
	mkfsOptions   []string
	preallocate   bool
	scrubOnDelete bool
}

// smallest are the sizes, in bytes, below which mkfs makes no file system.
var smallest = map[string]int64{"ext4": 1 << 20, "xfs": 300 << 20, "btrfs": 109 << 20}

func parseParameters(given map[string]string, claim *v1.PersistentVolumeClaim) (parameters, error) {
	p := parameters{fsType: "ext4"}
	raw := provisioning.VolumeMode(claim) == v1.PersistentVolumeBlock
	if raw {
		p.fsType = ""
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value := given[name]
		var err error
		switch name {
		case "directory":
			p.directory, err = filepath.Clean(value), provisioning.CheckPath("it", value)
		case "fsType":
			if _, known := smallest[value]; !known {
				err = volume.Errorf(volume.ErrInvalid, "it is none of ext4, xfs and btrfs")
			}
			p.fsType = value
		case "mkfsOptions":
			p.mkfsOptions = strings.Fields(value)
		case "preallocate":
			p.preallocate, err = parseBool(value)
		case "scrubOnDelete":
			p.scrubOnDelete, err = parseBool(value)
		default:
			return parameters{}, volume.Errorf(volume.ErrInvalid,
				"parameter %q is not known: there are directory, fsType, mkfsOptions, preallocate and scrubOnDelete", name)
		}
		if raw && (name == "fsType" || name == "mkfsOptions") {
			err = volume.Errorf(volume.ErrInvalid, "it has no effect on a raw device, which the claim asks for (volumeMode Block): use another class")
		}
		if err != nil {
			return parameters{}, volume.Errorf(volume.ErrInvalid, "parameter %s=%q: %w", name, value, err)
		}
	}
	if raw {
		return p, nil
	}
	if err := filesystem.CheckOptions(p.fsType, p.mkfsOptions); err != nil {
		return parameters{}, volume.Errorf(volume.ErrInvalid, "parameter mkfsOptions=%q: %w", given["mkfsOptions"], err)
	}
	return p, nil
}

func parseBool(value string) (bool, error) {
	if value != "true" && value != "false" {
		return false, volume.Errorf(volume.ErrInvalid, "it is neither true nor false")
	}
	return value == "true", nil
}
