// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/ownership"
	"github.com/volumekit/volumekit/volume"
)

// SetUpPod makes the pod's volumes available and returns what became of each, and the mounts of its containers. Volumes
// proceed side by side and do not depend on each other: if some fail the others are there, and the error joins a
// *[volume.Error] for each that failed. A pod that is ambiguous or whose names are unsafe is refused as a whole, before
// anything is touched, with an error that matches [volume.ErrInvalid].
//
// Called again it goes on where an interrupted call ended, and changes nothing if there is nothing to do. A volume that is
// set up from another source than the pod now has is an error that matches [volume.ErrInUse]; so is one that the pod no
// longer has. Neither the manager nor the caller changes the pod, also later.
//
// It is the simple way, for a program that sees to each pod itself. While [Manager.Run] sees to them, the error matches
// [volume.ErrInUse]: then [Manager.SetPod] and [Manager.WaitForPod] are the way. So it does if another call changes what is wanted
// of the pod meanwhile.
func (m *Manager) SetUpPod(ctx context.Context, pod *v1.Pod) (PodStatus, error) {
	if pod == nil {
		err := volume.Errorf(volume.ErrInvalid, "the pod is nil")
		return PodStatus{Err: err}, err
	}
	status := PodStatus{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	refuse := func(err error) (PodStatus, error) {
		status.Err = err
		return status, err
	}
	if err := m.checkSimple(); err != nil {
		return refuse(err)
	}
	pod, err := m.checked(ctx, pod)
	if err != nil {
		return refuse(err)
	}
	release, err := m.turns.Acquire(ctx, string(pod.UID))
	if err != nil {
		status.Volumes = m.notBegun(pod, err)
		return status, fmt.Errorf("pod %s: %w", podName(pod), err)
	}
	defer release()
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pod(pod.UID)
	p.readAgain()
	p.want(pod)
	p.settle(ctx, onceOnly)
	status = p.status()
	switch {
	case p.wanted != pod:
		status.Err = volume.Errorf(volume.ErrInUse, "pod %s: %w by another call", podName(pod), errOvertaken)
		return status, status.Err
	case p.err != nil: // nothing was done
		p.wanted = nil
		m.letGo(p)
		return status, status.Err
	}
	m.mu.Unlock()
	defer m.mu.Lock()
	m.prepareFirstContainers(ctx, pod, &status)
	return status, status.err()
}

// checkSimple refuses the calls that are not for a manager that runs.
func (m *Manager) checkSimple() error {
	if err := m.checkOpen(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running || m.stopping {
		return volume.Errorf(volume.ErrInUse, "the volume manager of %s sees to pods by itself (Run): tell it which pods are wanted (SetPod, RemovePod)", m.host.Root)
	}
	return nil
}

// readAgain makes the next settling begin from what is on disk. mu is locked.
func (p *managedPod) readAgain() {
	kept := p.volumes[:0]
	for _, v := range p.volumes {
		if v.running != nil { // abandoned
			kept = append(kept, v)
		}
	}
	p.volumes, p.loaded, p.recorded, p.unwritten, p.wanted = kept, false, nil, false, nil
	p.retry.reset()
}

// err joins the errors of a status.
func (s *PodStatus) err() error {
	errs := []error{s.Err}
	for i := range s.Volumes {
		errs = append(errs, s.Volumes[i].Err)
	}
	return errors.Join(append(errs, s.containersErr())...)
}

// containersErr joins the errors of what containers ask for.
func (s *PodStatus) containersErr() error {
	var errs []error
	for i := range s.Containers {
		for _, err := range s.Containers[i].errs() {
			errs = append(errs, fmt.Errorf("pod %s/%s: %w", s.Namespace, s.Name, err))
		}
	}
	return errors.Join(errs...)
}

// notBegun returns the statuses of a pod's volumes before anything was done.
func (m *Manager) notBegun(pod *v1.Pod, why error) []VolumeStatus {
	volumes := make([]VolumeStatus, len(pod.Spec.Volumes))
	for i := range pod.Spec.Volumes {
		v := m.resolver.resolve(pod, &pod.Spec.Volumes[i])
		volumes[i] = v.status()
		volumes[i].Err = v.wrap("set up", volumes[i], why)
	}
	return volumes
}

// setUp makes a volume available, and proves that it is there.
func (m *Manager) setUp(ctx context.Context, v *podVolume, recorded *volumeRecord, r *result) error {
	if err := checkVolumeLinks(m.host, v.pod.UID, v.id); err != nil {
		return err
	}
	if err := m.checkNothingOnTop(ctx, recorded, v.mounter.Path()); err != nil {
		return err
	}
	if err := m.prepareDevice(ctx, v); err != nil {
		return err
	}
	options := v.options()
	options.Warn = r.warn
	if err := v.mounter.SetUp(ctx, options); err != nil {
		return err
	}
	presence, err := v.mounter.Presence(ctx)
	switch presence {
	case volume.Present:
		r.mount, err = m.mountAt(ctx, v.mounter.Path())
		return err
	case volume.Absent:
		return errors.New("the plugin reported success, but the volume is not there")
	}
	return volume.Errorf(volume.ErrUncertain, "the plugin reported success, but it cannot be told whether the volume is there: %w", err)
}

// giveToGroup gives the files of a volume to the pod's fsGroup, if that is not the plugin's business. After it was interrupted it
// goes on with what is not right yet.
func (v *podVolume) giveToGroup(ctx context.Context, r *result) error {
	group := v.options().FSGroup
	if group == nil || v.spec.ReadOnly || !v.mounter.Attributes().FSGroupWalk {
		return nil
	}
	policy := v.options().FSGroupChangePolicy
	_, err := ownership.Apply(ctx, v.mounter.Path(), ownership.Options{
		Group:          *group,
		OnRootMismatch: policy != nil && *policy == v1.FSGroupChangeOnRootMismatch,
		ReadOnly:       v.mounter.Attributes().ReadOnly,
		Progress:       func(p ownership.Progress) { r.progress(p.Seen, p.Changed) },
	})
	if err != nil {
		return fmt.Errorf("give its files to the fsGroup %d: %w", *group, err)
	}
	return nil
}

// options are what the pod has to say about its volume.
func (v *podVolume) options() volume.SetUpOptions {
	options := volume.SetUpOptions{SELinuxLabel: v.label}
	if security := v.pod.Spec.SecurityContext; security != nil {
		options.FSGroup, options.FSGroupChangePolicy = security.FSGroup, security.FSGroupChangePolicy
	}
	return options
}
