// SPDX-License-Identifier: Apache-2.0

package hostpath

import (
	"maps"
	"slices"
	"strconv"

	"github.com/volumekit/volumekit/internal/provisioning"
	"github.com/volumekit/volumekit/volume"
)

// The defaults of a StorageClass's parameters.
const (
	defaultPattern = "${.PV.name}"
	defaultMode    = 0o777
)

// parameters are those of a StorageClass.
type parameters struct {
	basePath string // empty: the plugin's first
	pattern  string
	mode     uint32 // permission bits, with setuid, setgid and sticky bit
	uid, gid int    // -1: the process's own

	hardLimit bool // the kernel enforces the claim's size
}

func parseParameters(given map[string]string) (parameters, error) {
	p := parameters{pattern: defaultPattern, mode: defaultMode, uid: -1, gid: -1}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value := given[name]
		var err error
		switch name {
		case "basePath":
			p.basePath, err = value, provisioning.CheckPath("it", value)
		case "pathPattern":
			p.pattern = value
		case "mode":
			var mode uint64
			mode, err = strconv.ParseUint(value, 8, 32)
			if err == nil && mode > 0o7777 {
				err = volume.Errorf(volume.ErrInvalid, "greater than 07777")
			}
			p.mode = uint32(mode)
		case parameterHardLimit:
			if p.hardLimit, err = strconv.ParseBool(value); err != nil {
				err = volume.Errorf(volume.ErrInvalid, "it is neither true nor false")
			}
		case "uid":
			p.uid, err = parseID(value)
		case "gid":
			p.gid, err = parseID(value)
		default:
			return parameters{}, volume.Errorf(volume.ErrInvalid, "parameter %q is not known: there are basePath, pathPattern, mode, uid, gid and hardLimit", name)
		}
		if err != nil {
			return parameters{}, volume.Errorf(volume.ErrInvalid, "parameter %s=%q: %w", name, value, err)
		}
	}
	return p, nil
}

// parseID accepts a user or group ID. The greatest number stands for none, see chown(2).
func parseID(value string) (int, error) {
	id, err := strconv.ParseUint(value, 10, 32)
	if err == nil && id == 1<<32-1 {
		err = volume.Errorf(volume.ErrInvalid, "it stands for no ID")
	}
	return int(id), err
}
