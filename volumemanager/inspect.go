// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/parallel"
	"github.com/volumekit/volumekit/volume"
)

// InspectOptions are the options of [Inspect]. The zero value asks for the least.
type InspectOptions struct {
	// Metrics asks for each volume's metrics, which may mean to walk all its files.
	Metrics bool

	// SELinux is that of [Options].
	SELinux SELinux
}

// Inspect tells what is there below the root of the plugins' host, from the records and from what is mounted, in the order
// of the pods' UIDs. It changes nothing, and needs no manager: it may be called while a manager, in this process or another
// one, is at work. A volume whose presence cannot be found out before ctx ends is Failed. The error is about the root as a
// whole; a root that does not exist holds no pods.
func Inspect(ctx context.Context, plugins *volume.VolumePluginMgr, options InspectOptions) ([]PodStatus, error) {
	uids, _, err := podUIDs(plugins.Host())
	if err != nil {
		return nil, err
	}
	pods := make([]PodStatus, len(uids))
	parallel.Each(len(uids), atOnce, func(i int) { pods[i] = inspectPod(ctx, plugins, uids[i], options) })
	// Of a pod that comes or goes at this moment there may be no more than its directory.
	return slices.DeleteFunc(pods, func(p PodStatus) bool { return len(p.Volumes) == 0 && errors.Is(p.Err, fs.ErrNotExist) }), nil
}

func inspectPod(ctx context.Context, plugins *volume.VolumePluginMgr, uid types.UID, options InspectOptions) PodStatus {
	host := plugins.Host()
	find := resolver{plugins: plugins, selinux: orKernel(options.SELinux)}
	status := PodStatus{UID: uid}
	left, err := readPod(host, uid)
	if err != nil {
		status.Err = fmt.Errorf("pod %s: %w", uid, err)
		return status
	}
	pod := &v1.Pod{}
	pod.UID = uid
	volumes := left.volumes
	if left.record != nil {
		pod = left.record.Pod
		status.Namespace, status.Name = pod.Namespace, pod.Name
	} else {
		_, err := readRecord(host, uid)
		status.Err = fmt.Errorf("pod %s: what it is was not recorded, or is lost: it can only be torn down: %w", uid, err)
	}
	var inspected []func() VolumeStatus
	for i := range pod.Spec.Volumes {
		v := find.resolve(pod, &pod.Spec.Volumes[i])
		var recorded *volumeRecord
		volumes = slices.DeleteFunc(volumes, func(r volumeRecord) bool {
			is := r.volumeID == v.id || !v.isResolved() && r.Volume == v.name
			if is {
				recorded = &r
			}
			return is
		})
		if recorded != nil && !recorded.isLost() && (!v.isResolved() || !recorded.isOf(&v)) {
			// What is there is what the volume's record says: it knows what the claim was bound to, and if the pod came back with
			// another source, that was refused.
			find.serve(&v, recorded.spec())
		}
		inspected = append(inspected, func() VolumeStatus { return inspectVolume(ctx, &v, recorded, options) })
	}
	for _, r := range volumes {
		inspected = append(inspected, func() VolumeStatus { return strayStatus(plugins, pod, &r) })
	}
	status.Volumes = make([]VolumeStatus, len(inspected))
	parallel.Each(len(inspected), atOnce, func(i int) { status.Volumes[i] = inspected[i]() })
	status.Containers = containerStatuses(host, pod, status.Volumes)
	for i := range status.Containers {
		for j := range status.Containers[i].Mounts {
			mount := &status.Containers[i].Mounts[j]
			mount.Unprepared = mount.Unprepared && !isBound(host, mount.Source)
		}
	}
	return status
}

// inspectVolume tells what has become of a volume that the pod has. recorded is nil if nothing is recorded of it.
func inspectVolume(ctx context.Context, v *podVolume, recorded *volumeRecord, options InspectOptions) VolumeStatus {
	err := v.err
	if err == nil && recorded != nil && !v.isResolved() {
		err = errors.New("it is not recorded what its claim is bound to")
	} else if err == nil && recorded != nil {
		err = verify(ctx, v, recorded)
	}
	status := v.status()
	wrap := func(err error) error { return v.wrap("inspect", status, err) }
	switch {
	case v.err != nil:
		status.State, status.Err = Failed, wrap(err)
	case recorded == nil:
		status.Err = wrap(errors.New("it has not been set up"))
	case recorded.TearingDown:
		status.Err = wrap(errors.New("it is being torn down, or that was interrupted"))
	case err == nil:
		status.State = Mounted
	case recorded.Failure != "":
		status.State, status.Err = Failed, wrap(errors.New(recorded.Failure))
	case errors.Is(err, errGone) && recorded.Mount == nil:
		status.Err = wrap(errors.New("it was to be set up, but is not there"))
	default:
		status.State, status.Err = Failed, wrap(err)
	}
	provider, ok := v.mounter.(volume.MetricsProvider)
	if ok && options.Metrics && status.State == Mounted {
		metrics, err := provider.Metrics(ctx)
		if err != nil {
			status.MetricsErr = err
		} else {
			status.Metrics = &metrics
		}
	}
	return status
}

// strayStatus tells of a volume that is on disk although the pod, as far as it is known, does not have it.
func strayStatus(plugins *volume.VolumePluginMgr, pod *v1.Pod, r *volumeRecord) VolumeStatus {
	status := VolumeStatus{Name: r.Volume, Plugin: r.Plugin, PersistentVolume: persistentVolumeName(r.spec()), Path: pathOf(plugins, pod.UID, r.volumeID), State: Pending}
	name := podName(pod)
	if pod.Name == "" {
		name = string(pod.UID)
	}
	status.Err = &volume.Error{Op: "inspect", Volume: r.Volume, Pod: name, Plugin: r.Plugin, Path: status.Path,
		Err: errors.New("the pod, as far as it is known, does not have it")}
	return status
}
