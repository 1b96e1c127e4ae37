// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/volume"
)

// podVolume is a volume of a pod together with what serves it.
type podVolume struct {
	pod  *v1.Pod
	name string // in the pod
	spec *volume.Spec

	// err says why nothing serves the volume. If it is not nil, mounter is nil, and so may be plugin.
	err     error
	plugin  volume.VolumePlugin
	id      volumeID
	mounter volume.Mounter
}

// resolve finds what serves a volume of the pod. It does no I/O.
func resolve(plugins *volume.VolumePluginMgr, pod *v1.Pod, entry *v1.Volume) podVolume {
	v := podVolume{pod: pod, name: entry.Name, spec: specOf(entry)}
	if v.plugin, v.err = plugins.FindPluginBySpec(v.spec); v.err != nil {
		return v
	}
	v.id = volumeID{Plugin: v.plugin.Name(), Name: v.spec.Name()}
	if v.err = checkServed(v.plugin, v.spec); v.err != nil {
		return v
	}
	v.mounter, v.err = v.plugin.NewMounter(v.spec, pod)
	return v
}

// checkServed refuses volumes that have to be attached or mounted once per node.
func checkServed(plugin volume.VolumePlugin, spec *volume.Spec) error {
	if attachable, ok := plugin.(volume.AttachableVolumePlugin); ok {
		needed, err := attachable.CanAttach(spec)
		if err != nil {
			return err
		}
		if needed {
			return volume.Errorf(volume.ErrNotSupported, "it has to be attached, which is not served yet")
		}
	}
	if mountable, ok := plugin.(volume.DeviceMountableVolumePlugin); ok {
		needed, err := mountable.CanDeviceMount(spec)
		if err != nil {
			return err
		}
		if needed {
			return volume.Errorf(volume.ErrNotSupported, "its device has to be mounted once per node, which is not served yet")
		}
	}
	return nil
}

// status returns what is known of the volume. It asks the mounter, so nothing else may be using that.
func (v *podVolume) status() VolumeStatus {
	status := VolumeStatus{Name: v.name, State: Pending}
	if v.plugin != nil {
		status.Plugin = v.plugin.Name()
	}
	if v.mounter != nil {
		status.Path = v.mounter.Path()
		status.ReadOnly = v.mounter.Attributes().ReadOnly
	}
	return status
}

// wrap adds to the error what it happened to, of which status was known.
func (v *podVolume) wrap(op string, status VolumeStatus, err error) error {
	return &volume.Error{Op: op, Volume: v.name, Pod: podName(v.pod), Plugin: status.Plugin, Path: status.Path, Err: err}
}

// requiresRemount reports whether the volume has to be set up again from time to time.
func (v *podVolume) requiresRemount() bool {
	plugin, ok := v.plugin.(volume.RemountVolumePlugin)
	return ok && plugin.RequiresRemount(v.spec)
}
