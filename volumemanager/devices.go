// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/volume"
)

// Device is what a container runtime needs to give a raw block device to a container.
type Device struct {
	// Volume is the volume's name in the pod.
	Volume string

	// Source is the path on the host: the pod's link to the device. Destination is the path in the container.
	Source, Destination string

	// ReadOnly says that the container may only read the device.
	ReadOnly bool
}

// Permissions are those of a cgroup's device list and of the CRI: "mr" for a device that may only be read, else "mrw".
func (d Device) Permissions() string {
	if d.ReadOnly {
		return "mr"
	}
	return "mrw"
}

// OCI returns the device as the OCI runtime specification has it: for linux.devices, and for linux.resources.devices, which allows
// it. It asks the kernel what device Source leads to, and fails if that is none. It works on Linux only.
func (d Device) OCI() (specs.LinuxDevice, specs.LinuxDeviceCgroup, error) {
	source, err := filepath.EvalSymlinks(d.Source)
	if err != nil {
		return specs.LinuxDevice{}, specs.LinuxDeviceCgroup{}, fmt.Errorf("device %s: %w", d.Source, err)
	}
	major, minor, mode, err := deviceNumbers(source)
	if err != nil {
		return specs.LinuxDevice{}, specs.LinuxDeviceCgroup{}, fmt.Errorf("device %s: %w", d.Source, err)
	}
	device := specs.LinuxDevice{Path: d.Destination, Type: "b", Major: major, Minor: minor, FileMode: &mode}
	return device, specs.LinuxDeviceCgroup{Allow: true, Type: "b", Major: &major, Minor: &minor, Access: d.Permissions()}, nil
}

// containerDevices tells which devices the container gets of the pod's volumes, and which it cannot get.
func containerDevices(c *v1.Container, volumes []VolumeStatus) (devices []Device, missing []MissingMount) {
	for _, d := range c.VolumeDevices {
		i := slices.IndexFunc(volumes, func(v VolumeStatus) bool { return v.Name == d.Name })
		switch {
		case i < 0 || volumes[i].State != Mounted:
			missing = append(missing, MissingMount{Volume: d.Name, Destination: d.DevicePath})
		case !volumes[i].Block:
			missing = append(missing, MissingMount{Volume: d.Name, Destination: d.DevicePath,
				Err: volume.Errorf(volume.ErrInvalid, "it is no raw device (volumeMode Block): it belongs in volumeMounts, not in volumeDevices")})
		default:
			devices = append(devices, Device{Volume: d.Name, Source: volumes[i].Path, Destination: d.DevicePath, ReadOnly: volumes[i].ReadOnly})
		}
	}
	return devices, missing
}
