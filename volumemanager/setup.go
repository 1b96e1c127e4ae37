// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"

	"github.com/volumekit/volumekit/internal/parallel"
	"github.com/volumekit/volumekit/internal/record"
	"github.com/volumekit/volumekit/volume"
)

// SetUpPod makes the pod's volumes available and returns what became of each, and the mounts of its containers. Volumes
// proceed side by side and do not depend on each other: if some fail the others are there, and the error joins a
// *[volume.Error] for each that failed. A pod that is ambiguous or whose names are unsafe is refused as a whole, before
// anything is touched, with an error that matches [volume.ErrInvalid].
//
// Called again it goes on where an interrupted call ended, and changes nothing if there is nothing to do. A volume that is
// set up from another source than the pod now has is an error that matches [volume.ErrInUse]; so is one that the pod no
// longer has. The pod is not changed.
func (m *Manager) SetUpPod(ctx context.Context, pod *v1.Pod) (PodStatus, error) {
	if pod == nil {
		err := volume.Errorf(volume.ErrInvalid, "the pod is nil")
		return PodStatus{Err: err}, err
	}
	status := PodStatus{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	err := m.checkOpen()
	if err == nil {
		err = checkPod(pod)
	}
	if err != nil {
		status.Err = err
		return status, err
	}
	release, err := m.pods.acquire(ctx, string(pod.UID))
	if err != nil {
		status.Volumes = m.notBegun(pod, err)
		return status, fmt.Errorf("pod %s: %w", podName(pod), err)
	}
	defer release()
	if err := m.setUpPod(ctx, pod, &status); err != nil {
		status.Err = fmt.Errorf("pod %s: %w", podName(pod), err)
	}
	return status, status.err()
}

// err joins the errors of a status.
func (s *PodStatus) err() error {
	errs := []error{s.Err}
	for i := range s.Volumes {
		errs = append(errs, s.Volumes[i].Err)
	}
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
		v := resolve(m.plugins, pod, &pod.Spec.Volumes[i])
		volumes[i] = v.status()
		volumes[i].Err = v.wrap("set up", volumes[i], why)
	}
	return volumes
}

// setUpPod fills in status. Its error is about the pod as a whole.
func (m *Manager) setUpPod(ctx context.Context, pod *v1.Pod, status *PodStatus) error {
	if err := checkPodLinks(m.host, pod.UID); err != nil {
		return err
	}
	records := recordsOf(m.host, pod.UID)
	if err := recordPod(records, pod); err != nil {
		return err
	}
	recorded, err := records.volumes()
	if err != nil {
		return fmt.Errorf("list the records of its volumes: %w", err)
	}
	wanted := make([]podVolume, len(pod.Spec.Volumes))
	for i := range pod.Spec.Volumes {
		wanted[i] = resolve(m.plugins, pod, &pod.Spec.Volumes[i])
		recorded = slices.DeleteFunc(recorded, func(id volumeID) bool { return id == wanted[i].id })
	}
	strays := m.refuseStrays(records, pod, wanted, recorded)
	status.Volumes = make([]VolumeStatus, len(wanted), len(wanted)+len(strays))
	parallel.Each(len(wanted), atOnce, func(i int) { status.Volumes[i] = m.setUpVolume(ctx, records, wanted[i]) })
	status.Volumes = append(status.Volumes, strays...)
	status.Containers = containerStatuses(pod, status.Volumes)
	return nil
}

// refuseStrays deals with the volumes that were set up for the pod but are none of those that are wanted: a wanted volume of the
// same name, served by another plugin now, is refused, and for the rest there is a status that says that they are in the way.
func (m *Manager) refuseStrays(records podRecords, pod *v1.Pod, wanted []podVolume, recorded []volumeID) []VolumeStatus {
	var strays []VolumeStatus
	for _, id := range recorded {
		stray := strayVolume(m.plugins, records, pod.UID, id)
		if i := slices.IndexFunc(wanted, func(v podVolume) bool { return v.name == stray.Name }); i >= 0 {
			wanted[i].err = volume.Errorf(volume.ErrInUse, "it is set up by plugin %s: tear the pod down first", id.plugin)
			continue
		}
		stray.State = Failed
		stray.Err = &volume.Error{Op: "set up", Volume: stray.Name, Pod: podName(pod), Plugin: id.plugin, Path: stray.Path,
			Err: volume.Errorf(volume.ErrInUse, "it is set up, but the pod no longer has it: tear the pod down first")}
		strays = append(strays, stray)
	}
	return strays
}

// recordPod writes the pod's record unless the same one is there.
func recordPod(records podRecords, pod *v1.Pod) error {
	recorded, err := records.readPod()
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, record.ErrDamaged):
	case err != nil:
		return err
	case recorded.Namespace != pod.Namespace || recorded.Name != pod.Name:
		return volume.Errorf(volume.ErrInvalid, "its UID %s is that of pod %s, which has volumes here", pod.UID, podName(recorded))
	case equality.Semantic.DeepEqual(recorded, podRecord(pod)):
		return nil
	}
	return records.writePod(pod)
}

func (m *Manager) setUpVolume(ctx context.Context, records podRecords, v podVolume) VolumeStatus {
	status := v.status()
	var warnings []string
	err := v.err
	if err == nil {
		err = m.volumes.do(ctx, v.key(), func() error { return m.setUp(ctx, records, v, &warnings) })
	}
	if err != nil {
		// The plugin may still be at work, so it is not asked for more.
		status.Err = v.wrap("set up", status, err)
		if v.err != nil || ctx.Err() == nil {
			status.State = Failed
		}
		return status
	}
	status = v.status()
	status.State, status.Warnings = Mounted, warnings
	return status
}

func (m *Manager) setUp(ctx context.Context, records podRecords, v podVolume, warnings *[]string) error {
	if err := checkVolumeLinks(m.host, v.pod.UID, v.id); err != nil {
		return err
	}
	unfinished, err := records.isTearingDown(v.id)
	if err != nil {
		return err
	}
	if unfinished {
		if err := m.tearDown(ctx, records, v.pod.UID, v.id); err != nil {
			return fmt.Errorf("finish the tearing down that was begun: %w", err)
		}
	}
	recorded, err := recordVolume(records, v)
	if err != nil {
		return err
	}
	err = mount(ctx, v, warnings)
	if ctx.Err() == nil {
		noteOutcome(ctx, records, v.id, recorded, err)
	}
	return err
}

// mount has the plugin set the volume up and proves that it is there.
func mount(ctx context.Context, v podVolume, warnings *[]string) error {
	options := volume.SetUpOptions{Warn: func(message string) { *warnings = append(*warnings, message) }}
	if security := v.pod.Spec.SecurityContext; security != nil {
		options.FSGroup, options.FSGroupChangePolicy = security.FSGroup, security.FSGroupChangePolicy
	}
	if err := v.mounter.SetUp(ctx, options); err != nil {
		return err
	}
	presence, err := v.mounter.Presence(ctx)
	switch presence {
	case volume.Present:
		return nil
	case volume.Absent:
		return errors.New("the plugin reported success, but the volume is not there")
	}
	return volume.Errorf(volume.ErrUncertain, "the plugin reported success, but it cannot be told whether the volume is there: %w", err)
}

// recordVolume writes the volume's record unless the same one is there, and returns it.
func recordVolume(records podRecords, v podVolume) (*volumeRecord, error) {
	wanted := newVolumeRecord(v.pod, v.name, v.spec)
	recorded, err := records.readVolume(v.id)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, record.ErrDamaged):
		return wanted, records.writeVolume(v.id, wanted)
	case err != nil:
		return nil, err
	}
	wanted.Failure = recorded.Failure
	if !equality.Semantic.DeepEqual(recorded, wanted) {
		return nil, volume.Errorf(volume.ErrInUse, "it is set up from another source than the pod now has: tear the pod down first")
	}
	return recorded, nil
}

// noteOutcome keeps why a volume could not be set up, for Inspect. What the volume needs is recorded already, so it does not
// matter if this cannot be.
func noteOutcome(ctx context.Context, records podRecords, id volumeID, recorded *volumeRecord, err error) {
	failure := ""
	if err != nil {
		failure = err.Error()
	}
	if recorded.Failure == failure {
		return
	}
	recorded.Failure = failure
	if err := records.writeVolume(id, recorded); err != nil {
		klog.FromContext(ctx).V(2).Info("Cannot record the outcome of setting up a volume", "path", records.volumePath(id), "err", err)
	}
}
