// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
)

// managedPod is what the manager holds of one pod: what is wanted, and what is there. Fields are guarded by the manager's mu.
type managedPod struct {
	m   *Manager
	uid types.UID

	// wanted is the pod as it is wanted, nil if it is not. refused says why what was last wanted cannot be served at all.
	wanted  *v1.Pod
	refused error

	// leaving says that the volumes are to go, whatever is known of other pods.
	leaving bool

	// changed says that wanted or leaving has changed since the pod was last settled.
	changed bool

	// volumes are those of wanted, in its order, then those that are there but not wanted.
	volumes []*managedVolume

	// err says why nothing can be done for the pod as a whole at the moment, and retry when it is tried again.
	err   error
	retry retry

	// settling says that a goroutine of Run is at work on the pod. news is closed, and replaced, whenever something about the
	// pod has changed.
	settling bool
	news     chan struct{}

	// asking says that it has been asked whether containers run, and there is no answer yet; unanswered, that nobody waits for it
	// any more.
	asking, unanswered bool

	// loaded says that recorded is what is on disk; nil if that is nothing, or is damaged. marked says that it is, or may be, marked
	// as leaving there. unwritten says that what is on disk is not what should be there.
	loaded    bool
	recorded  *podRecord
	marked    bool
	unwritten bool
}

// managedVolume is a volume of a managedPod.
type managedVolume struct {
	// id is the volume's once a plugin has been found for it, or from its record.
	id volumeID

	// name is the volume's in the pod.
	name string

	// wanted is the volume as the pod has it, nil if it is to go. Its mounter is used by the operation that runs.
	wanted *podVolume

	// record is what is recorded of the volume, or is to be; nil if nothing may be there.
	record *volumeRecord

	// there says that the volume has been set up, or found, as it is wanted; suspect, that this has to be verified.
	there   bool
	suspect bool

	// adopted says that what the claim is bound to is known from a manager before this one. It may have grown since.
	adopted bool

	// stale says that what the volume depends on may have changed since the last operation that looked at it began.
	stale   bool
	follows following

	// measured is what measures how full the volume is, nil if nothing does.
	measured volume.MetricsProvider

	// running is the operation that is under way, nil if there is none.
	running *operation

	// err is what the last operation ended with, and interrupted says that it did so because its time was up.
	err         error
	failing     Operation // the last one that failed
	interrupted bool
	warnings    []string
	retry       retry

	// path and readOnly are what the mounter told when no operation was running.
	path     string
	readOnly bool
	block    bool
	relabels bool
}

// pod returns what is held of the pod, which begins to be held. mu is locked.
func (m *Manager) pod(uid types.UID) *managedPod {
	p := m.pods[uid]
	if p == nil {
		p = &managedPod{m: m, uid: uid, news: make(chan struct{})}
		m.pods[uid] = p
	}
	return p
}

// forget ends that anything is held of the pod, unless operations of its volumes are running, which others must not overlap.
// mu is locked.
func (m *Manager) forget(p *managedPod) {
	for _, v := range p.volumes {
		m.neglect(v)
	}
	if !slices.ContainsFunc(p.volumes, func(v *managedVolume) bool { return v.running != nil }) {
		delete(m.pods, p.uid)
	}
	p.tell()
}

// letGo ends what a simple call has begun and not finished. Once Run has taken over what there is, it has to know of every pod
// that may be on disk. mu is locked.
func (m *Manager) letGo(p *managedPod) {
	if !m.recovered {
		m.forget(p)
		return
	}
	p.loaded, p.changed = false, true
	p.retry.reset()
	p.kick()
}

// isLeaving reports whether the pod's volumes are to go. mu is locked.
func (p *managedPod) isLeaving() bool {
	return p.wanted == nil && (p.leaving || p.m.complete)
}

// tell lets those know who wait for something about the pod. mu is locked.
func (p *managedPod) tell() {
	close(p.news)
	p.news = make(chan struct{})
}

// want makes the pod, which has been checked, the one that is wanted. mu is locked.
func (p *managedPod) want(pod *v1.Pod) {
	if p.wanted == nil || !hasSameVolumes(p.wanted, pod) {
		p.changed = true
		p.retry.reset()
	}
	p.wanted, p.refused, p.leaving = pod, nil, false
}

// unwant says that the pod is not wanted. mu is locked.
func (p *managedPod) unwant() {
	if p.wanted != nil || !p.leaving {
		p.changed = true
		p.retry.reset()
	}
	p.wanted, p.refused, p.leaving = nil, nil, true
}

// arrange brings volumes in line with wanted. mu is locked.
func (p *managedPod) arrange() {
	var arranged []*managedVolume
	if p.wanted != nil {
		for i := range p.wanted.Spec.Volumes {
			arranged = append(arranged, p.arrangeVolume(&p.wanted.Spec.Volumes[i], arranged))
		}
	}
	for _, v := range p.volumes {
		if slices.Contains(arranged, v) {
			continue
		}
		if v.record == nil && v.running == nil {
			p.m.neglect(v)
			continue
		}
		if v.wanted != nil || p.changed {
			v.wanted = nil
			v.retry.reset()
		}
		arranged = append(arranged, v)
	}
	p.volumes = arranged
	p.changed = false
}

// arrangeVolume returns what is held of the volume that stands in the wanted pod, and that is none of those that are taken.
func (p *managedPod) arrangeVolume(entry *v1.Volume, taken []*managedVolume) *managedVolume {
	wanted := p.m.resolver.resolve(p.wanted, entry)
	i := slices.IndexFunc(p.volumes, func(v *managedVolume) bool {
		if slices.Contains(taken, v) {
			return false
		}
		if wanted.id == (volumeID{}) { // no plugin is found for it at the moment
			return v.name == entry.Name
		}
		return v.id == wanted.id || v.id == (volumeID{}) && v.name == entry.Name
	})
	if i < 0 {
		v := &managedVolume{id: wanted.id, name: entry.Name}
		v.want(&wanted)
		return v
	}
	v := p.volumes[i]
	if p.changed || v.wanted == nil || v.wanted.err != nil {
		if spec := p.knownSpec(v, &wanted); spec != nil {
			p.m.resolver.serve(&wanted, spec)
			v.adopted = v.adopted || v.wanted == nil
		}
		v.want(&wanted)
	}
	return v
}

// knownSpec returns what is known of the PersistentVolume of a claim, from before the pod changed, or from a manager before this
// one: a pod that has a volume keeps it, whatever has become of the claim. It is nil if nothing is known, or needed.
func (p *managedPod) knownSpec(v *managedVolume, wanted *podVolume) *volume.Spec {
	switch old := v.wanted; {
	case wanted.claim == nil:
		return nil
	case old != nil && old.isResolved() && equality.Semantic.DeepEqual(old.claim, wanted.claim):
		return old.given
	case old != nil || p.recorded == nil || v.record == nil || v.record.TearingDown || v.record.PersistentVolume == nil:
		return nil
	}
	for i := range p.recorded.Pod.Spec.Volumes {
		entry := &p.recorded.Pod.Spec.Volumes[i]
		if entry.Name == wanted.name && equality.Semantic.DeepEqual(claimOf(p.recorded.Pod, entry), wanted.claim) {
			return v.record.spec()
		}
	}
	return nil
}

// want makes the volume, which is a new resolution, the one that is wanted. mu is locked.
func (v *managedVolume) want(wanted *podVolume) {
	if old := v.wanted; old != nil && old.err == nil && wanted.err == nil && old.isAlike(wanted) {
		if wanted.isResolved() && wanted.requiresRemount() { // its content may come from what else the pod says
			v.wanted, v.stale = wanted, true
		}
		return
	} else if old == nil || old.err == nil || wanted.err == nil {
		v.there, v.stale = false, false
		v.retry.reset()
	}
	v.wanted, v.name = wanted, wanted.name
	if wanted.id != (volumeID{}) {
		v.id = wanted.id
	}
	if v.running == nil {
		v.look()
	}
}

// look takes over what the mounter tells. mu is locked, and no operation is running.
func (v *managedVolume) look() {
	if v.wanted != nil && v.wanted.mounter != nil {
		attributes := v.wanted.mounter.Attributes()
		v.path, v.readOnly, v.relabels = v.wanted.mounter.Path(), attributes.ReadOnly, v.wanted.relabels(attributes)
		v.block = isBlock(v.wanted.spec)
	}
}

// isStray reports whether the volume is there without being wanted. A volume of which it is not known which plugin serves it
// now, because that is not registered, may be this one.
func (p *managedPod) isStray(v *managedVolume) bool {
	return v.wanted == nil && v.record != nil && !slices.ContainsFunc(p.volumes, func(other *managedVolume) bool {
		return other.wanted != nil && other.wanted.id == (volumeID{}) && other.name == v.name
	})
}

// differs reports whether the volume was set up from another source than the one that is wanted. mu is locked.
func (v *managedVolume) differs() bool {
	return v.wanted != nil && v.wanted.isResolved() && v.wanted.err == nil && v.record != nil && !v.record.isOf(v.wanted)
}

// isOf reports whether the record is that of the volume.
func (r *volumeRecord) isOf(v *podVolume) bool {
	return r.volumeID == v.id && (r.isLost() || r.Volume == v.name && isSameVolume(r.spec(), v.spec))
}

// state sums up what has become of the volume. mu is locked.
func (v *managedVolume) state() VolumeState {
	switch {
	case v.there:
		return Mounted
	case v.wanted != nil && v.wanted.err != nil && v.record == nil:
		return Failed
	case v.err == nil, v.interrupted, v.wanted == nil, v.waitsForPlugin(), isWaiting(v.err):
		return Pending
	}
	return Failed
}

// waitsForPlugin reports whether something of the volume may be there, but its plugin is not registered. mu is locked.
func (v *managedVolume) waitsForPlugin() bool {
	return v.record != nil && v.wanted != nil && v.wanted.err != nil
}

// status tells what has become of the volume. mu is locked.
func (v *managedVolume) status(pod string) VolumeStatus {
	status := VolumeStatus{Name: v.name, Plugin: v.id.Plugin, Path: v.path, ReadOnly: v.readOnly, Block: v.block, SELinuxRelabel: v.relabels, State: v.state(), Warnings: v.warnings,
		Failures: v.retry.failures}
	switch {
	case v.wanted != nil && v.wanted.isResolved():
		status.PersistentVolume = persistentVolumeName(v.wanted.spec)
	case v.record != nil:
		status.PersistentVolume = persistentVolumeName(v.record.spec())
	}
	if v.running != nil {
		status.Running = v.running.status()
	}
	if status.State == Mounted {
		if v.err != nil {
			status.Warnings = append(slices.Clip(status.Warnings), fmt.Sprintf("since it was set up: %s: %v", v.failing, v.err))
		}
		return status
	}
	err := v.err
	op := OperationSetUp
	switch {
	case v.wanted == nil:
		op = OperationTearDown
	case v.wanted.err != nil:
		err = v.wanted.err
	}
	switch {
	case err != nil:
	case v.running != nil:
		err = fmt.Errorf("it is being worked on: %s", v.running.kind)
	case v.wanted == nil:
		err = errors.New("it is there, but its pod does not have it, or is not wanted")
	default:
		err = errors.New("it is not there yet")
	}
	status.Err = &volume.Error{Op: string(op), Volume: v.name, Pod: pod, Plugin: v.id.Plugin, Path: v.path, Err: err}
	return status
}

// names returns the pod's namespace and name, empty if they are lost. mu is locked.
func (p *managedPod) names() (namespace, name string) {
	switch {
	case p.wanted != nil:
		return p.wanted.Namespace, p.wanted.Name
	case p.recorded != nil:
		return p.recorded.Pod.Namespace, p.recorded.Pod.Name
	}
	return "", ""
}

// String is how messages name the pod. mu is locked.
func (p *managedPod) String() string {
	if namespace, name := p.names(); name != "" {
		return namespace + "/" + name
	}
	return string(p.uid)
}

// status tells what the pod has. mu is locked.
func (p *managedPod) status() PodStatus {
	status := PodStatus{UID: p.uid, Leaving: p.isLeaving()}
	status.Namespace, status.Name = p.names()
	name := p.String()
	for _, v := range p.volumes {
		shown := v.status(name)
		shown.Metrics, shown.MetricsErr = p.metrics(v)
		if p.wanted == nil && !status.Leaving {
			shown.Err = errors.New("an earlier process has left it, and it is not known yet whether its pod is wanted")
		}
		if p.m.running && !v.there && v.retry.failures > 0 && v.running == nil {
			shown.NextTry = v.retry.next
		}
		status.Volumes = append(status.Volumes, shown)
	}
	switch {
	case p.refused != nil:
		status.Err = p.refused
	case p.err != nil:
		status.Err = fmt.Errorf("pod %s: %w", name, p.err)
	}
	if p.wanted != nil {
		status.Containers = containerStatuses(p.m.host, p.wanted, status.Volumes)
		status.SupplementalGroups = p.supplementalGroups()
	}
	return status
}

// publish tells subscribers that an operation has ended. mu is locked.
func (p *managedPod) publish(e Event) {
	e.Time = p.m.host.Clock.Now()
	e.UID = p.uid
	e.Namespace, e.Name = p.names()
	e.Outcome = outcomeOf(e.Err)
	p.m.events.publish(e)
}

// unfinished reports whether operations are running that have not been abandoned. mu is locked.
func (p *managedPod) unfinished() bool {
	return slices.ContainsFunc(p.volumes, func(v *managedVolume) bool { return v.running != nil && !v.running.abandoned })
}

// wait waits until something about the pod changes. It returns false if ctx ends first. mu is locked, and is locked again
// when wait returns.
func (p *managedPod) wait(ctx context.Context) bool {
	news := p.news
	p.m.mu.Unlock()
	defer p.m.mu.Lock()
	select {
	case <-news:
		return true
	case <-ctx.Done():
		return false
	}
}
