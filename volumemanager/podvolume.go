// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/volumekit/volumekit/volume"
)

// podVolume is a volume of a pod together with what serves it.
type podVolume struct {
	pod  *v1.Pod
	name string // in the pod

	// claim is the claim that the volume stands for, nil if it stands for itself.
	claim *claimReference

	// spec is nil as long as it is not known which PersistentVolume the claim is bound to; so is then all that follows.
	spec *volume.Spec

	// given is the spec before it was translated.
	given *volume.Spec

	// grow says that the node has to grow the device when it is there, since the claim has less than its PersistentVolume.
	grow bool

	// err says why nothing serves the volume. If it is not nil, mounter is nil, and so may be plugin.
	err     error
	plugin  volume.VolumePlugin
	id      volumeID
	mounter volume.Mounter // a *blockVolume for a raw device

	// device is what has to be done once per node first, nil if nothing has.
	device *device

	// label is the SELinux label that the volume is to be mounted with, empty for none.
	label string
}

// resolver finds what serves volumes.
type resolver struct {
	plugins *volume.VolumePluginMgr
	selinux SELinux
}

// resolve finds what serves a volume of the pod, unless that depends on a claim. It does no I/O.
func (r resolver) resolve(pod *v1.Pod, entry *v1.Volume) podVolume {
	v := podVolume{pod: pod, name: entry.Name, claim: claimOf(pod, entry)}
	if v.claim == nil {
		r.serve(&v, specOf(entry))
	} else {
		v.err = checkClaimReference(entry, v.claim)
	}
	return v
}

// serve finds what serves the volume, of which spec has become known. It does no I/O.
func (r resolver) serve(v *podVolume, spec *volume.Spec) {
	v.spec, v.given = spec, spec
	v.plugin, v.err = r.plugins.FindPluginBySpec(v.spec)
	if errors.Is(v.err, volume.ErrNotSupported) {
		v.serveTranslated(r.plugins)
	}
	if v.err != nil {
		return
	}
	v.id = volumeID{Plugin: v.plugin.Name(), Name: v.spec.Name()}
	if v.err = checkMountOptions(v.plugin, v.spec); v.err != nil {
		return
	}
	if v.label, v.err = mountLabel(r.selinux, v); v.err != nil {
		return
	}
	if v.device, v.err = deviceOf(v.plugin, v.spec); v.err != nil {
		return
	}
	if isBlock(v.spec) {
		v.serveBlock(r.plugins.Host())
		return
	}
	v.mounter, v.err = v.plugin.NewMounter(v.spec, v.pod)
}

func (v *podVolume) serveBlock(host volume.Host) {
	mounter, err := newBlockVolume(host, v.plugin, v.spec, v.pod)
	if err != nil {
		v.err = err // and mounter stays nil
		return
	}
	v.mounter = mounter
}

// serveTranslated looks for the CSI driver that has taken over a source which nobody serves as it is.
func (v *podVolume) serveTranslated(plugins *volume.VolumePluginMgr) {
	translated, err := translate(v.spec, v.pod.Namespace)
	switch {
	case err != nil:
		v.err = err
	case translated != nil:
		source := v.spec.Source()
		v.spec = translated
		if v.plugin, v.err = plugins.FindPluginBySpec(translated); v.err != nil {
			v.err = fmt.Errorf("source %s has become that of a CSI driver: %w", source, v.err)
		}
	}
}

// isResolved reports whether the volume's spec is known.
func (v *podVolume) isResolved() bool { return v.spec != nil }

// isAlike reports whether other is the same volume of the same pod, wanted in the same way.
func (v *podVolume) isAlike(other *podVolume) bool {
	if !equality.Semantic.DeepEqual(v.claim, other.claim) || v.isResolved() != other.isResolved() {
		return false
	}
	return !v.isResolved() || isSameVolume(v.spec, other.spec) && equality.Semantic.DeepEqual(v.options(), other.options())
}

// checkMountOptions refuses mount options that would have no effect.
func checkMountOptions(plugin volume.VolumePlugin, spec *volume.Spec) error {
	pv := spec.PersistentVolume
	if pv == nil {
		return nil
	}
	_, annotated := pv.Annotations[v1.MountOptionAnnotation]
	if !annotated && len(pv.Spec.MountOptions) == 0 {
		return nil
	}
	if isBlock(spec) {
		return volume.Errorf(volume.ErrNotSupported, "PersistentVolume %q has mountOptions, which a raw device (volumeMode Block) cannot have", pv.Name)
	}
	if p, ok := plugin.(volume.MountOptionsVolumePlugin); ok && p.SupportsMountOptions(spec) {
		return nil
	}
	return volume.Errorf(volume.ErrNotSupported, "PersistentVolume %q has mountOptions, which plugin %s does not use", pv.Name, plugin.Name())
}

// status returns what is known of the volume. It asks the mounter, so nothing else may be using that.
func (v *podVolume) status() VolumeStatus {
	status := VolumeStatus{Name: v.name, State: Pending}
	if v.isResolved() {
		status.PersistentVolume = persistentVolumeName(v.spec)
	}
	if v.plugin != nil {
		status.Plugin = v.plugin.Name()
	}
	if v.mounter != nil {
		status.Path = v.mounter.Path()
		attributes := v.mounter.Attributes()
		status.ReadOnly, status.SELinuxRelabel, status.Block = attributes.ReadOnly, v.relabels(attributes), isBlock(v.spec)
	}
	return status
}

func persistentVolumeName(spec *volume.Spec) string {
	if spec.PersistentVolume == nil {
		return ""
	}
	return spec.PersistentVolume.Name
}

// wrap adds to the error what it happened to, of which status was known.
func (v *podVolume) wrap(op string, status VolumeStatus, err error) error {
	return &volume.Error{Op: op, Volume: v.name, Pod: podName(v.pod), Plugin: status.Plugin, Path: status.Path, Err: err}
}

// requiresRemount reports whether the volume has to be set up again from time to time.
func (v *podVolume) requiresRemount() bool {
	if v.plugin == nil {
		return false
	}
	plugin, ok := v.plugin.(volume.RemountVolumePlugin)
	return ok && plugin.RequiresRemount(v.spec)
}
