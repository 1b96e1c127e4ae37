// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
)

// ContainerState tells about the containers of pods. It is what decides when a pod's volumes may go.
type ContainerState interface {
	// RunningContainers tells whether containers of the pod may still use its volumes: [volume.Absent] says that there are
	// none, and on nothing else are volumes taken away. The error explains [volume.Unknown]. It is asked again from time to
	// time, and at once after [Manager.ContainersChanged].
	RunningContainers(ctx context.Context, uid types.UID) (volume.Presence, error)
}

// SetPod says that the pod is wanted, and how: one that is new, or one that has changed. [Manager.Run] gives it its volumes;
// [Manager.WaitForPod] waits for them. A volume that the pod does not have any more, or has from another source, goes once the
// pod's containers are gone, and comes back as it is wanted. Neither the manager nor the caller changes the pod, also later.
//
// A pod that is ambiguous or whose names are unsafe is refused with an error that matches [volume.ErrInvalid]; it keeps the
// volumes that it has.
func (m *Manager) SetPod(ctx context.Context, pod *v1.Pod) error {
	if pod == nil {
		return volume.Errorf(volume.ErrInvalid, "the pod is nil")
	}
	if err := errors.Join(m.checkOpen(), volume.CheckPodUID(pod.UID)); err != nil {
		return err
	}
	checked, err := m.checked(ctx, pod)
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pod(pod.UID)
	if err != nil {
		p.refused = err
		if p.wanted == nil {
			p.leaving = false
		}
	} else {
		p.want(checked)
	}
	p.kick()
	return err
}

// SetPods says which pods are wanted: these, and no others. It does what [Manager.SetPod] does for each, and
// [Manager.RemovePod] for every other pod, also of those that an earlier manager has left. Until it has been called, only
// those pods go that RemovePod names. The error joins those of the pods that are refused; they count as wanted.
func (m *Manager) SetPods(ctx context.Context, pods []*v1.Pod) error {
	if err := m.checkOpen(); err != nil {
		return err
	}
	wanted := make(map[types.UID]bool, len(pods))
	errs := make([]error, 0, len(pods))
	for _, pod := range pods {
		errs = append(errs, m.SetPod(ctx, pod))
		if pod != nil {
			wanted[pod.UID] = true
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.complete = true
	for uid, p := range m.pods {
		if !wanted[uid] {
			p.unwant()
			p.kick()
		}
	}
	return errors.Join(errs...)
}

// RemovePod says that the pod is not wanted any more: [Manager.Run] takes its volumes away once its containers are gone. It
// does nothing for a pod of which nothing is known and nothing is there.
func (m *Manager) RemovePod(uid types.UID) error {
	if err := errors.Join(m.checkOpen(), volume.CheckPodUID(uid)); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pod(uid)
	p.unwant()
	p.kick()
	return nil
}

// ContainersChanged says that the containers of the pod may have ended, so that those who wait for that ask at once.
func (m *Manager) ContainersChanged(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.pods[uid]; p != nil {
		p.tryAtOnce()
	}
}

// tryAtOnce has everything that failed tried again. mu is locked.
func (p *managedPod) tryAtOnce() {
	p.retry.reset()
	for _, v := range p.volumes {
		v.retry.reset()
	}
	p.kick()
}

// WaitForPod waits until all volumes of the pod are there and returns its status. If ctx ends first, the error says which
// volumes are missing and why. It returns at once for a pod that is not wanted, with an error that matches
// [volume.ErrNotFound], and for one that is refused, with one that matches [volume.ErrInvalid].
func (m *Manager) WaitForPod(ctx context.Context, uid types.UID) (PodStatus, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		p := m.pods[uid]
		switch {
		case p == nil || p.wanted == nil && p.refused == nil:
			return PodStatus{UID: uid}, volume.Errorf(volume.ErrNotFound, "pod %s is not wanted here", uid)
		case p.refused != nil:
			return p.status(), p.refused
		case p.isReady():
			status := p.status() // where what the pod has no more may still be there
			return status, status.containersErr()
		}
		if !p.wait(ctx) {
			status := p.status()
			return status, fmt.Errorf("pod %s: %w: %w", p, context.Cause(ctx), status.err())
		}
	}
}

// isReady reports whether the pod is wanted and has all its volumes. mu is locked.
func (p *managedPod) isReady() bool {
	if p.wanted == nil || p.changed || !p.loaded || p.marked || p.err != nil {
		return false
	}
	for _, v := range p.volumes {
		if v.wanted != nil && !v.there {
			return false
		}
	}
	return true
}
