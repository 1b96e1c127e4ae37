// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/volume"
)

// sharing is how a pod uses a volume that other pods may use at the same time: all have to use it in the same way, since its files
// have one owning group, and one SELinux label if they are mounted with it.
type sharing struct {
	plugin, volume string
	group          *int64
	label          string
	onePod         bool // the volume's only access mode is ReadWriteOncePod
}

// sharing returns how the volume is used; ok is false if it cannot be in the way of another pod.
func (v *podVolume) sharing() (s sharing, ok bool) {
	if v.mounter == nil {
		return s, false
	}
	if v.mounter.Attributes().FSGroupWalk && !v.spec.ReadOnly {
		s.group = v.options().FSGroup
	}
	s.label = v.label
	if pv := v.spec.PersistentVolume; pv != nil {
		s.onePod = slices.Equal(pv.Spec.AccessModes, []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod})
	}
	if s.group == nil && s.label == "" && !s.onePod {
		return s, false
	}
	name, err := v.plugin.VolumeName(v.spec)
	if err != nil {
		return s, false
	}
	s.plugin, s.volume = v.plugin.Name(), name
	return s, true
}

// keepOut takes from due the volumes that cannot be set up because of how another pod uses them. mu is locked.
func (s *settling) keepOut(due map[*managedVolume]Operation) {
	for v, operation := range due {
		if operation != OperationSetUp {
			continue
		}
		err := s.checkSharing(v)
		if err == nil {
			continue
		}
		v.fail(s.managedPod, err)
		s.m.keptOut[v] = s.managedPod
		delete(due, v)
		s.publish(Event{Volume: v.name, Plugin: v.id.Plugin, Operation: operation, NextTry: v.retry.next,
			Err: &volume.Error{Op: string(operation), Volume: v.name, Pod: s.String(), Plugin: v.id.Plugin, Path: v.path, Err: err}})
		s.tell()
	}
}

// checkSharing returns an error if another pod, which has the volume or may have it, has it in a way that rules this one out. mu is
// locked.
func (p *managedPod) checkSharing(v *managedVolume) error {
	wanted, ok := v.wanted.sharing()
	if !ok {
		return nil
	}
	for _, other := range p.m.pods {
		for _, o := range other.volumes {
			if o == v || o.record == nil || o.id.Plugin != wanted.plugin {
				continue
			}
			has, ok := other.recordedAs(o).sharing()
			if !ok || has.volume != wanted.volume {
				continue
			}
			if wanted.onePod || has.onePod {
				return volume.Errorf(volume.ErrInUse, "pod %s uses it, and its access mode is ReadWriteOncePod: wait until that pod is gone", other)
			}
			if has.group != nil && wanted.group != nil && *has.group != *wanted.group {
				return volume.Errorf(volume.ErrInUse, "pod %s uses it, and its files belong to that pod's fsGroup %d, not to %d: "+
					"give both pods the same fsGroup, or wait until that pod is gone", other, *has.group, *wanted.group)
			}
			if has.label != "" && wanted.label != "" && has.label != wanted.label {
				return volume.Errorf(volume.ErrInUse, "pod %s uses it, mounted with the SELinux label %q, not %q: "+
					"give both pods the same seLinuxOptions, or set seLinuxChangePolicy: Recursive", other, has.label, wanted.label)
			}
		}
	}
	return nil
}

// recordedAs returns the volume as it was set up. mu is locked.
func (p *managedPod) recordedAs(v *managedVolume) *podVolume {
	pod := p.wanted
	if p.recorded != nil {
		pod = p.recorded.Pod
	}
	if pod == nil || v.record.isLost() {
		return &podVolume{}
	}
	was := podVolume{pod: pod, name: v.name}
	p.m.resolver.serve(&was, v.record.spec())
	return &was
}

// unshared has those volumes tried again at once that other pods kept from being set up. mu is locked.
func (m *Manager) unshared() {
	for v, p := range m.keptOut {
		v.retry.reset()
		p.kick()
	}
	clear(m.keptOut)
}
